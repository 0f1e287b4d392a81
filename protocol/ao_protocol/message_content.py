"""The content of messages: a list of blocks, whose types are an open list (SPEC 5)."""

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Final, Literal, TypeAlias

from pydantic import ConfigDict, Discriminator, Field, Tag

from ao_protocol.wire import Name, WireModel


class TextBlock(WireModel):
    """A piece of the text of a message. A block without `type` is one."""

    type: Literal["text"] = "text"
    text: str


class ReasoningBlock(WireModel):
    """A piece of what the model thought, as its provider shows it. It is never part of the answer (AOX-085)."""

    type: Literal["reasoning"]
    text: str


_KNOWN_TYPES: Final = ("text", "reasoning")


class OtherBlock(WireModel):
    """A block of a type that this version does not define. A receiver ignores it (AOX-086)."""

    model_config = ConfigDict(json_schema_extra={"additionalProperties": True})

    type: Annotated[Name, Field(json_schema_extra={"not": {"enum": list(_KNOWN_TYPES)}})]


def _kind_of_block(block: Any) -> str:  # noqa: ANN401  # pydantic passes any value
    kind = block.get("type", "text") if isinstance(block, Mapping) else getattr(block, "type", "text")
    return kind if kind in _KNOWN_TYPES else "other"


ContentBlock: TypeAlias = Annotated[
    Annotated[TextBlock, Tag("text")]
    | Annotated[ReasoningBlock, Tag("reasoning")]
    | Annotated[OtherBlock, Tag("other")],
    Discriminator(_kind_of_block),
]


def text_of(content: Iterable[ContentBlock]) -> str:
    """Return the text of a message, without what the model thought and without blocks of unknown types."""
    return "".join(block.text for block in content if isinstance(block, TextBlock))


def reasoning_of(content: Iterable[ContentBlock]) -> str:
    """Return what the model thought, as far as the content shows it."""
    return "".join(block.text for block in content if isinstance(block, ReasoningBlock))
