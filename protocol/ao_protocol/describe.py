"""Descriptions: what an executor says of itself (SPEC 7)."""

from typing import Annotated, Literal

from pydantic import AfterValidator, Field, ValidationError

from ao_protocol.events import ExecutorIdentity
from ao_protocol.ijson import NotIJson, decode_object
from ao_protocol.version import supported_texts
from ao_protocol.wire import JsonObject, Name, VersionText, WireModel, problems_of

VariableName = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]


def _only_false(value: bool) -> Literal[False]:
    if value:
        raise ValueError("expected false, or an object with strategies")
    return False


Absent = Annotated[bool, AfterValidator(_only_false)]


class OutputSchemaCapability(WireModel):
    """The executor enforces output contracts itself, by these strategies.

    `formats` are the types of `output_format` that it knows besides JSON.
    """

    strategies: Annotated[list[Literal["prompt", "system_prompt", "extract", "native"]], Field(min_length=1)]
    formats: list[Name] = []


class Capabilities(WireModel):
    """What the executor can do. A capability that is absent or false is not there."""

    resume: bool = False
    multi_turn: bool = False
    prepare: bool = False
    cancel: bool = False
    streaming: bool = False
    check: bool = False
    trace: bool = False
    output_schema: OutputSchemaCapability | Absent = False


class RequiredProgram(WireModel):
    """A program that must be on the machine, and how one gets it."""

    name: Name
    install_hint: str | None = None


class ModelEndpoint(WireModel):
    """Which variables point the executor at another model API and give it a key."""

    env: VariableName
    api_key_env: VariableName | None = None


class Description(WireModel):
    """What `describe` prints: one JSON object, made without network, credentials or a home."""

    schema_versions: Annotated[list[VersionText], Field(min_length=1)] = Field(default_factory=supported_texts)
    executor: ExecutorIdentity
    agent_types: list[Literal["autonomous", "procedural"]] = ["autonomous"]
    capabilities: Capabilities = Capabilities()
    config_schema: JsonObject = {"type": "object"}
    secrets: list[VariableName] = []
    environment: list[VariableName] = []
    requires_programs: list[RequiredProgram] = []
    model_endpoint: dict[Name, ModelEndpoint] = {}


class InvalidDescription(ValueError):
    """What `describe` printed is no description."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__(problems)
        self.problems = problems

    def __str__(self) -> str:
        return f"invalid description: {'; '.join(self.problems)}"


def parse_description(line: bytes) -> Description:
    """Read what `ao-<name>-exec describe` printed.

    Args:
        line: The JSON object, in UTF-8.

    Returns:
        The description, with the defaults of SPEC 7 for what it leaves out.

    Raises:
        InvalidDescription: naming every field that is wrong.
    """
    try:
        document = decode_object(line)
        description = Description.model_validate(document)
    except NotIJson as error:
        raise InvalidDescription([str(error)]) from error
    except ValidationError as error:
        raise InvalidDescription(problems_of(error, document)) from error
    # The default is this package's own versions, for executors made with it; another's are not ours to guess.
    if "schema_versions" not in description.model_fields_set:
        raise InvalidDescription(["$.schema_versions: field required"])
    return description
