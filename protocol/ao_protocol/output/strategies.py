"""By which strategy a model is asked: the one that is wanted, of those that an executor has (SPEC 9.6)."""

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Final

from ao_protocol.output.contract import JsonFormat, OutputContract
from ao_protocol.output.native import fits_natively
from ao_protocol.output.options import Strategy

USUAL: Final = Strategy.SYSTEM_PROMPT
STANDS_IN_INSTRUCTIONS: Final = frozenset({Strategy.PROMPT, Strategy.SYSTEM_PROMPT})
"""The strategies that tell the model the whole demand in words."""


@dataclass(eq=False)
class StrategyNotOffered(ValueError):
    """The run wants a strategy that its executor does not have."""

    wanted: str
    offered: tuple[str, ...]

    def __str__(self) -> str:
        return f"strategy {str(self.wanted)!r} is not available for this contract; use {' or '.join(self.offered)}"


def with_strategy(
    contract: OutputContract, offered: Collection[str], *, is_resume: bool = False, usual: Strategy = USUAL
) -> OutputContract:
    """Return the contract with the strategy that is used.

    Nothing said means `usual`, or the first that is offered where that is not. `auto` means `native` where it
    is offered and the schema can be handed to a provider, else what nothing said means. In a resume `system_prompt`
    gives way to `prompt` where that is offered: a session may keep the system prompt that it began with.

    Raises:
        StrategyNotOffered: the run wants one that is not offered, or `native` for a contract that cannot be put so.
    """
    usual = usual if usual in offered else Strategy(next(iter(offered)))
    is_asked_for = contract.strategy in {Strategy.NATIVE, Strategy.AUTO}
    can_be_native = is_asked_for and Strategy.NATIVE in offered and _can_be_native(contract)
    match contract.strategy:
        case None:
            chosen = usual
        case Strategy.AUTO:
            chosen = Strategy.NATIVE if can_be_native else usual
        case Strategy.NATIVE if not can_be_native:
            raise StrategyNotOffered(contract.strategy, tuple(name for name in offered if name != Strategy.NATIVE))
        case wanted if wanted not in offered:
            raise StrategyNotOffered(wanted, tuple(offered))
        case wanted:
            chosen = wanted
    if is_resume and chosen is Strategy.SYSTEM_PROMPT and Strategy.PROMPT in offered:
        chosen = Strategy.PROMPT
    return replace(contract, strategy=chosen)


def _can_be_native(contract: OutputContract) -> bool:
    return isinstance(contract.format, JsonFormat) and fits_natively(contract.format.schema)
