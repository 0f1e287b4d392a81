"""An answer of the script at the moment when it is given: under which id and name, and to which request."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from ao_model_simulator.script import Answer, TextBlock, ThinkingBlock, ToolUseBlock

CREATED: Final = 1_735_689_600
"""When every answer says that it was made, in seconds since 1970: the same each time, as all of a script is."""


@dataclass(frozen=True, slots=True)
class GivenAnswer:
    """An answer with its identity. `fields` and `path` are those of the request.

    `id` is unique among simulators and carries no prefix: each API puts its own before it.
    """

    id: str
    model: str
    answer: Answer
    path: str = ""
    fields: Mapping[str, Any] = field(default_factory=dict)

    @property
    def text(self) -> str | None:
        """All that the model says, for APIs that have one text per answer; None when it says nothing."""
        texts = [block.text for block in self.answer.blocks if isinstance(block, TextBlock)]
        return "".join(texts) if texts else None

    @property
    def thinking(self) -> str:
        """All that the model thinks."""
        return "".join(block.thinking for block in self.answer.blocks if isinstance(block, ThinkingBlock))

    @property
    def tool_uses(self) -> list[tuple[int, ToolUseBlock]]:
        """The tool uses with their places among the blocks."""
        return [(n, block) for n, block in enumerate(self.answer.blocks) if isinstance(block, ToolUseBlock)]

    def tool_call_id(self, prefix: str, index: int, block: ToolUseBlock) -> str:
        """Return the tool use's own id, or one that is made from the place of the block."""
        return block.id or f"{prefix}_{self.id}_{index}"
