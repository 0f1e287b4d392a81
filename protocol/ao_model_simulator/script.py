"""The script: the answers of the simulated model in order, and the expectations of requests.

The error for an invalid script names each invalid field, the value found and the value expected.
"""

import difflib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError, model_validator
from pydantic_core import ErrorDetails

CONTENT_SOURCES: Final = ("text", "text_file", "json", "content")
FAULTS_WITHOUT_CONTENT: Final = ("status", "stall")
FAULTS_IN_CONTENT: Final = ("stall_after_chars", "cut", "cut_after_chars", "malformed", "stream_error")
FAULTS: Final = FAULTS_WITHOUT_CONTENT + FAULTS_IN_CONTENT
FLAGS: Final = frozenset({"stall", "cut", "malformed"})


def find_contradiction(given: AbstractSet[str]) -> str | None:
    """Return why these fields do not make an answer; None if they do. `given` leaves out null and false flags.

    Content comes from one source. An answer has at most one fault; `status` and `stall` are faults without content.
    `error` requires `status`, and `text_times` requires a text. `add_rules_to_schema` adds the same rules to the JSON
    Schema.
    """
    sources = [name for name in CONTENT_SOURCES if name in given]
    faults = [name for name in FAULTS if name in given]
    silent = [name for name in FAULTS_WITHOUT_CONTENT if name in given]
    if len(faults) > 1:
        return f"one fault at a time, not {' and '.join(faults)}"
    if silent and sources:
        return f"no {sources[0]}, because {silent[0]} leaves no content"
    if not silent and len(sources) != 1:
        return f"exactly one of {', '.join(CONTENT_SOURCES + FAULTS_WITHOUT_CONTENT)}"
    if "error" in given and "status" not in given:
        return "a status beside error; an error inside a stream is called stream_error"
    if "text_times" in given and not given & {"text", "text_file"}:
        return "text or text_file beside text_times"
    return None


def add_rules_to_schema(schema: dict[str, Any]) -> None:
    """Add the rules of `find_contradiction` to the JSON Schema of an answer."""
    faults = [_is_given(name) for name in FAULTS]
    pairs = [{"allOf": [one, other]} for n, one in enumerate(faults) for other in faults[n + 1 :]]
    needs_status = {"allOf": [_is_given("error"), {"not": _is_given("status")}]}
    has_text = {"anyOf": [_is_given("text"), _is_given("text_file")]}
    schema["oneOf"] = [_is_given(name) for name in CONTENT_SOURCES + FAULTS_WITHOUT_CONTENT]
    schema["not"] = {"anyOf": [*pairs, needs_status]}
    schema["dependentSchemas"] = {"text_times": has_text}


def _is_given(name: str) -> dict[str, Any]:
    """Return the schema of a field that is given. A false flag and null count as absent, except `json: null`."""
    if name == "json":
        return {"required": [name]}
    value = {"const": True} if name in FLAGS else {"not": {"type": "null"}}
    return {"required": [name], "properties": {name: value}}


StopReason = Literal[
    "end_turn",
    "max_tokens",
    "model_context_window_exceeded",
    "pause_turn",
    "refusal",
    "stop_sequence",
    "tool_use",
]

HeaderName = Annotated[str, Field(pattern=r"^[A-Za-z0-9-]+$")]
HeaderValue = Annotated[str, Field(pattern=r"^[ -~]*$")]


class ScriptPart(BaseModel):
    """Base class of all parts of a script. Unknown fields are typing errors, so they are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, validate_by_name=True, validate_by_alias=True)


class TextBlock(ScriptPart):
    """Text that the model says."""

    type: Literal["text"] = "text"
    text: str


class ThinkingBlock(ScriptPart):
    """Reasoning that comes before the answer and must not be taken for it."""

    type: Literal["thinking"] = "thinking"
    thinking: str
    signature: str = "c2ltdWxhdGVk"


class ToolUseBlock(ScriptPart):
    """A tool that the model wants to be run; the client answers with a `tool_result`."""

    type: Literal["tool_use"] = "tool_use"
    name: str = Field(min_length=1)
    input: dict[str, JsonValue] = Field(default_factory=dict)
    id: str | None = Field(default=None, min_length=1, description="Made up and unique when absent.")


ContentBlock = Annotated[TextBlock | ThinkingBlock | ToolUseBlock, Field(discriminator="type")]


class Usage(ScriptPart):
    """The tokens that the answer claims to have cost."""

    input_tokens: int = Field(default=100, ge=0)
    output_tokens: int = Field(default=50, ge=0)
    reasoning_tokens: int = Field(default=0, ge=0, description="Part of the output tokens; some APIs tell it.")
    cache_creation_input_tokens: int = Field(default=0, ge=0)
    cache_read_input_tokens: int = Field(default=0, ge=0)

    @property
    def all_input_tokens(self) -> int:
        """All input tokens, cached ones included, as some APIs count them."""
        return self.input_tokens + self.cache_creation_input_tokens + self.cache_read_input_tokens


class ApiError(ScriptPart):
    """An error of the API, in the form of the Messages API."""

    type: str | None = Field(default=None, description="When absent, the API's own name for the status.")
    message: str | None = Field(default=None, description="When absent, the API's own words for the status.")


class Expectation(ScriptPart):
    """What the request must hold. Every field that is given must be true."""

    model: str | None = Field(default=None, description="The requested model, exactly.")
    stream: bool | None = Field(default=None, description="Whether the client asked for a stream.")
    system_contains: str | list[str] | None = None
    system_ends_with: str | None = Field(default=None, description="Trailing white space is ignored.")
    system_lacks: str | list[str] | None = Field(default=None, description="What must not be there.")
    last_user_contains: str | list[str] | None = None
    last_user_lacks: str | list[str] | None = Field(default=None, description="What must not be there.")
    last_user_equals: str | None = None
    tool_result_contains: str | list[str] | None = Field(default=None, description="In the last user message.")
    any_tool_result_contains: str | list[str] | None = Field(default=None, description="In any message.")
    conversation_contains: str | list[str] | None = Field(default=None, description="In any message of the request.")
    conversation_contains_once: str | list[str] | None = Field(
        default=None, description="Exactly once in all messages of the request together."
    )
    conversation_lacks: str | list[str] | None = Field(default=None, description="In no message of the request.")
    messages_count: int | None = Field(default=None, ge=1)
    tool_names_include: list[str] | None = None
    tool_names_exclude: list[str] | None = None
    files_contain: str | list[str] | None = Field(
        default=None, description="In the list of files of all messages: a media type, a space, a SHA-256 digest."
    )
    schema_contains: str | list[str] | None = Field(
        default=None, description="In the JSON of the schema for structured output, or of that of an offered tool."
    )


class Answer(ScriptPart):
    """One answer of the model: content from one source, or a fault, or content with a fault in it."""

    model_config = ConfigDict(json_schema_extra=add_rules_to_schema)

    expect: Expectation | None = None
    repeat: Annotated[int, Field(ge=1)] | Literal["forever"] = 1

    text: str | None = None
    text_file: str | None = Field(default=None, description="A file with the text, relative to the script.")
    text_times: int = Field(default=1, ge=1, description="How often `text` or `text_file` is said in a row.")
    json_value: JsonValue = Field(default=None, alias="json", description="A value, sent as JSON text.")
    content: list[ContentBlock] | None = Field(default=None, min_length=1)

    stop_reason: StopReason | None = None
    model: str | None = None
    usage: Usage = Usage()
    headers: dict[HeaderName, HeaderValue] = Field(default_factory=dict)

    delay_seconds: float = Field(default=0, ge=0, description="Silence before the first byte.")
    chunk_chars: int = Field(default=4096, ge=1, description="The most characters in one streamed delta.")
    chunk_delay_seconds: float = Field(default=0, ge=0, description="Silence after each streamed delta.")

    status: int | None = Field(default=None, ge=300, le=599)
    error: ApiError | None = None
    stall: bool = False
    stall_after_chars: int | None = Field(default=None, ge=0)
    cut: bool = Field(default=False, description="Cut in the middle of the content.")
    cut_after_chars: int | None = Field(default=None, ge=0)
    malformed: bool = False
    stream_error: ApiError | None = Field(default=None, description="An `error` event after the content.")

    @model_validator(mode="after")
    def has_one_meaning(self) -> Self:
        """Refuse contradictory answers, by the rules of `find_contradiction`."""
        if contradiction := find_contradiction(self._given_names()):
            raise ValueError(contradiction)
        return self

    def _given_names(self) -> set[str]:
        """Return the given fields by their names in the file. Null counts for `json` only."""
        values = {name: getattr(self, name) for name in self.model_fields_set}
        meant = {name for name, value in values.items() if value is not None and value is not False}
        return meant | {"json"} if self._says_json else meant

    @property
    def _says_json(self) -> bool:
        return "json_value" in self.model_fields_set

    @property
    def blocks(self) -> tuple[ContentBlock, ...]:
        """The content as blocks of the Messages API."""
        if self.content is not None:
            return tuple(self.content)
        if self.text is not None:
            return (TextBlock(text=self.text * self.text_times),)
        if self._says_json:
            return (TextBlock(text=json.dumps(self.json_value, ensure_ascii=False)),)
        return ()

    def offered(self, tool_names: Sequence[str]) -> Self:
        """Return the answer with the whole name of each tool that is offered with a prefix (`mcp__x__y` for `y`)."""
        wanted = {block.name for block in self.content or () if isinstance(block, ToolUseBlock)}
        whole = {name: one for name in wanted - {*tool_names} for one in tool_names if one.endswith(f"_{name}")}
        if not whole:
            return self
        named = [
            block.model_copy(update={"name": whole.get(block.name, block.name)}) if block.type == "tool_use" else block
            for block in self.content or ()
        ]
        return self.model_copy(update={"content": named})

    @property
    def effective_stop_reason(self) -> StopReason:
        """The scripted stop reason, or the one that the content implies."""
        if self.stop_reason is not None:
            return self.stop_reason
        uses_tool = any(isinstance(block, ToolUseBlock) for block in self.blocks)
        return "tool_use" if uses_tool else "end_turn"


class Script(ScriptPart):
    """The answers of one simulation, used in order."""

    model_config = ConfigDict(title="Script of the model simulator")

    schema_reference: str | None = Field(default=None, alias="$schema")
    description: str | None = None
    model: str | None = Field(default=None, description="Who answers; when absent, whoever was asked.")
    answers: list[Answer]

    @classmethod
    def from_answers(cls, answers: Iterable[Answer | Mapping[str, Any]], *, model: str | None = None) -> Self:
        """Return a script with these answers.

        Args:
            answers: The answers in order. A mapping has the fields of an answer in a script file.
            model: The name of the model in every answer; None keeps the requested one.

        Returns:
            The script. Each `text_file` remains a path.

        Raises:
            pydantic.ValidationError: An answer is not valid.
        """
        return cls.model_validate({"model": model, "answers": list(answers)})

    @model_validator(mode="after")
    def every_answer_can_be_reached(self) -> Self:
        """Refuse answers after one that repeats forever."""
        for index, answer in enumerate(self.answers[:-1]):
            if answer.repeat == "forever":
                raise ValueError(f"no answer after answers[{index}], which repeats forever")
        return self


YAML_SUFFIXES: Final = frozenset({".yaml", ".yml"})


@dataclass(eq=False)
class ScriptError(Exception):
    """The script cannot be used. Each problem is a sentence for its author."""

    path: Path
    problems: list[str]

    def __str__(self) -> str:
        return "\n".join(f"{self.path}: {problem}" for problem in self.problems)


def load_script(path: Path) -> Script:
    """Return the script in a file.

    Args:
        path: The path of a JSON file, or of a YAML file with the suffix `.yaml` or `.yml`.

    Returns:
        The script, with the contents of every `text_file` in place.

    Raises:
        ScriptError: The file is missing, is not JSON or YAML, or is not a script. The message names each invalid field.
    """
    document = _parse(path)
    try:
        script = Script.model_validate(document)
    except ValidationError as error:
        raise ScriptError(path, _describe_problems(document, error.errors())) from None
    return fill_text_files(script, path)


def script_document(script: Script) -> dict[str, Any]:
    """Return the script as JSON data that depends on no other file."""
    document = script.model_dump(mode="json", by_alias=True, exclude_unset=True)
    for answer in document["answers"]:
        if answer.get("text_file", "") is None:
            del answer["text_file"]
    return document


def fill_text_files(script: Script, path: Path) -> Script:
    """Return the script with the contents of every `text_file`, whose path is relative to the script's own path.

    Raises:
        ScriptError: A `text_file` is not a readable UTF-8 file.
    """
    answers = []
    for index, answer in enumerate(script.answers):
        if answer.text_file is not None:
            try:
                text = (path.parent / answer.text_file).read_text(encoding="utf-8")
            except (OSError, UnicodeDecodeError) as error:
                problem = f"answers[{index}].text_file: found {answer.text_file!r}; expected a readable UTF-8 file"
                raise ScriptError(path, [problem]) from error
            answer = answer.model_copy(update={"text": text, "text_file": None})  # noqa: PLW2901
        answers.append(answer)
    return script.model_copy(update={"answers": answers})


def _parse(path: Path) -> object:
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise ScriptError(path, [f"cannot read the script: {reason}"]) from error
    document: object
    if path.suffix.lower() not in YAML_SUFFIXES:
        try:
            document = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise ScriptError(path, [f"the script is not JSON: {error}"]) from error
        return document
    try:
        import yaml
    except ImportError as error:
        raise ScriptError(path, ["a YAML script needs PyYAML, which the extra [cli] installs"]) from error
    try:
        document = yaml.load(text, Loader=_core_loader())  # noqa: S506  # a safe loader
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise ScriptError(path, [f"the script is not YAML: {error}"]) from error
    return document


def _core_loader() -> type[Any]:
    """Return a safe loader of the core schema of YAML 1.2, as for blueprints: `no`, `1:30` and a date are text."""
    import yaml

    loader: type[Any] = type("CoreLoader", (yaml.SafeLoader,), {"yaml_implicit_resolvers": {}})
    for kind, pattern in _CORE_SCHEMA.items():
        loader.add_implicit_resolver(f"tag:yaml.org,2002:{kind}", re.compile(f"(?:{pattern})\\Z"), None)
    return loader


_CORE_SCHEMA: Final = {
    "null": "null|Null|NULL|~|",
    "bool": "true|True|TRUE|false|False|FALSE",
    "int": "[-+]?(?:0|[1-9][0-9]*)|0o[0-7]+|0x[0-9a-fA-F]+",
    "float": r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?",
}


SHOWN_CHARS: Final = 80
CLOSE_ENOUGH: Final = 0.75
FIELD_NAMES: Final = sorted(
    field.alias or name
    for part in (Script, Answer, Expectation, ApiError, ToolUseBlock, Usage)
    for name, field in part.model_fields.items()
)
PHRASES: Final = (
    ("Value error, ", ""),
    ("Input should be greater", "a number greater"),
    ("Input should be less", "a number less"),
    ("Input should be ", ""),
    ("String should have ", "a string with "),
    ("List should have ", "a list with "),
)


def _describe_problems(document: object, errors: Iterable[ErrorDetails]) -> list[str]:
    """Return one sentence per invalid field. `document` is the script as it was parsed."""
    found: dict[str, str] = {}
    expected: dict[str, list[str]] = {}
    for error in errors:
        path = _field_path(document, error)
        found.setdefault(path, _describe_found(error))
        expected.setdefault(path, []).append(_describe_expected(error))
    return [f"{path}: found {found[path]}; expected {' or '.join(expected[path])}" for path in found]


def _field_path(document: object, error: ErrorDetails) -> str:
    """Return the path in the author's document, without pydantic's names of union members."""
    path, value = "", document
    for part in error["loc"]:
        if isinstance(part, int):
            path += f"[{part}]"
            value = value[part] if isinstance(value, list) and part < len(value) else None
        elif isinstance(value, dict) and part in value:
            path += f".{part}"
            value = value[part]
    if error["type"] == "missing":
        path += f".{error['loc'][-1]}"
    return path.removeprefix(".") or "the script"


def _describe_found(error: ErrorDetails) -> str:
    if error["type"] == "missing":
        return "nothing"
    if error["type"] == "extra_forbidden":
        return "an unknown field"
    text = json.dumps(error["input"], ensure_ascii=False, default=str)
    return text if len(text) <= SHOWN_CHARS else f"{text[:SHOWN_CHARS]}…"


def _describe_expected(error: ErrorDetails) -> str:
    if error["type"] == "missing":
        return "this field"
    if error["type"] in {"model_type", "model_attributes_type"}:
        return "an object"
    if error["type"] == "union_tag_invalid":
        return f"a type that is one of {error['ctx']['expected_tags']}"
    if error["type"] == "extra_forbidden":
        near = difflib.get_close_matches(str(error["loc"][-1]), FIELD_NAMES, n=1, cutoff=CLOSE_ENOUGH)
        parts = {1: Script.model_fields, 3: Answer.model_fields}
        fields = f"such as {', '.join(parts.get(len(error['loc'])) or FIELD_NAMES)}"
        return f"{near[0]}, perhaps" if near else f"a field {fields}"
    for start, phrase in PHRASES:
        if error["msg"].startswith(start):
            return phrase + error["msg"].removeprefix(start)
    return error["msg"]
