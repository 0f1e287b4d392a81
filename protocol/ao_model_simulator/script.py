"""The script: which answers the simulated model gives, in order, and what each request must hold.

Only data and the rules between its fields. Reading a script from a file is `script_file`.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, JsonValue, model_validator

from ao_model_simulator.script_rules import add_rules_to_schema, find_contradiction

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
    """Anything written in a script: unknown fields are typing errors there, so they are refused."""

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
    cache_creation_input_tokens: int = Field(default=0, ge=0)
    cache_read_input_tokens: int = Field(default=0, ge=0)

    @property
    def all_input_tokens(self) -> int:
        """The input with what was cached, as APIs count it that do not keep the two apart."""
        return self.input_tokens + self.cache_creation_input_tokens + self.cache_read_input_tokens


class ApiError(ScriptPart):
    """The `error` object of the Messages API."""

    type: str | None = Field(default=None, description="When absent, the API's own name for the status.")
    message: str = "simulated by the script"


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
        """Refuse answers of which two readings are possible, by the rules of `script_rules`."""
        if contradiction := find_contradiction(self._given_names()):
            raise ValueError(contradiction)
        return self

    def _given_names(self) -> set[str]:
        """Return the fields that are given, by their names in the file; null counts for `json` only."""
        values = {name: getattr(self, name) for name in self.model_fields_set}
        meant = {name for name, value in values.items() if value is not None and value is not False}
        return meant | {"json"} if self._says_json else meant

    @property
    def _says_json(self) -> bool:
        return "json_value" in self.model_fields_set

    @property
    def blocks(self) -> tuple[ContentBlock, ...]:
        """The content as the blocks of the Messages API."""
        if self.content is not None:
            return tuple(self.content)
        if self.text is not None:
            return (TextBlock(text=self.text * self.text_times),)
        if self._says_json:
            return (TextBlock(text=json.dumps(self.json_value, ensure_ascii=False)),)
        return ()

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
        """Return the script with these answers. Raise pydantic's `ValidationError` when one is wrong."""
        return cls.model_validate({"model": model, "answers": list(answers)})

    @model_validator(mode="after")
    def every_answer_can_be_reached(self) -> Self:
        """Refuse answers behind one that never ends."""
        for index, answer in enumerate(self.answers[:-1]):
            if answer.repeat == "forever":
                raise ValueError(f"no answer after answers[{index}], which repeats forever")
        return self
