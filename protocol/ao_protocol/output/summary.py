"""How a contract was kept, as a result tells it (SPEC 9.6, AOX-179)."""

from types import MappingProxyType
from typing import Final

from ao_protocol.events import OutputSummary
from ao_protocol.output.contract import OutputContract
from ao_protocol.output.enforcement import Accepted
from ao_protocol.output.options import Strategy

RE_PROMPT: Final = "re_prompt"
FIRST_SENT: Final = MappingProxyType(
    {
        Strategy.PROMPT: "prompt",
        Strategy.SYSTEM_PROMPT: "system_prompt",
        Strategy.NATIVE: "native",
        Strategy.EXTRACT: "nothing",
    }
)
"""Where the demand stands when the model is asked for the first time."""


def summary_of(contract: OutputContract, outcome: Accepted) -> OutputSummary:
    """Return `result.output` for an answer that was accepted under a contract whose strategy has been chosen."""
    strategy = contract.strategy or Strategy.SYSTEM_PROMPT
    return OutputSummary(
        schema_source=contract.source,
        retry_count=outcome.retry_count,
        ambiguous=outcome.ambiguous,
        strategy=strategy,
        sent=[FIRST_SENT[strategy], *[RE_PROMPT] * outcome.retry_count],
        delivered_by="native" if outcome.is_native else "text",
        edits=list(outcome.edits) or None,
    )
