"""The tokens and the cost of a run, from the figures of an agent, which count a turn or a whole session."""

from typing import Any, Final

from ao_executors.core.foreign_json import JsonDocument, as_object, objects_in
from ao_protocol.events import UsageFigures
from ao_protocol.framing import MAX_SAFE_INTEGER

_TOKENS: Final = {
    "input_tokens": ("inputTokens", "input_tokens"),
    "output_tokens": ("outputTokens", "output_tokens"),
    "cache_read_input_tokens": ("cachedReadTokens", "cachedInputTokens"),
    "cache_creation_input_tokens": ("cachedWriteTokens",),
    "reasoning_tokens": ("thoughtTokens",),
}
"""The names in the protocol's `usage`, and in the `_meta.quota` of Claude's agent and Gemini's CLI."""
_DOLLARS: Final = "USD"


class RunUsage:
    """The figures of one run.

    Args:
        counts_turns: Whether the agent's token counts are those of a turn.
        is_new: Whether the session begins with the run. If not, totals of tokens are left out, and the cost counts from
            the one that arrives before the first prompt; without it, it is left out.
    """

    def __init__(self, *, counts_turns: bool, is_new: bool) -> None:
        self.is_known = False
        """True once the agent has given figures for this run."""
        self._counts_turns = counts_turns
        self._tokens: dict[str, int] = {}
        self._is_new = is_new
        self._cost: float | None = None
        self._cost_before = 0.0 if is_new else None
        self._has_begun = False

    def begin(self) -> None:
        """Record that the first prompt follows: the figures until now belong to earlier runs."""
        if not self._has_begun and self._cost is not None:
            self._cost_before = self._cost
        self._has_begun = True

    def take_update(self, update: JsonDocument) -> None:
        """Take the cost of a `usage_update`, which is a total of the session, and the tokens in a chunk's `_meta`."""
        cost = as_object(update.get("cost"))
        amount = cost.get("amount")
        if cost.get("currency") == _DOLLARS and isinstance(amount, int | float) and amount >= 0:
            self._cost = max(float(amount), self._cost or 0.0)
            self.is_known |= self._has_begun
        if self._has_begun and self._counts_turns:
            self._add(as_object(as_object(update.get("_meta")).get("usage")))

    def take_response(self, response: JsonDocument) -> None:
        """Take the tokens of a response to `session/prompt`."""
        quota = as_object(as_object(response.get("_meta")).get("quota"))
        given = as_object(response.get("usage")) or as_object(quota.get("token_count"))
        if self._counts_turns:
            # With a row for each model subagents count, too: the other figures are those of the main conversation.
            models = [as_object(row.get("token_count")) for row in objects_in(quota.get("model_usage"))]
            for counts in models or [given]:
                self._add(counts)
        elif self._is_new and (totals := _counts(given)):
            self._tokens = totals
            self.is_known = True

    def figures(self) -> UsageFigures:
        """Return the figures so far; they never go down."""
        cost = None
        if self._cost is not None and self._cost_before is not None:
            cost = max(0.0, round(self._cost - self._cost_before, 9))
        return UsageFigures(**self._tokens, cost_usd=cost)

    def _add(self, given: JsonDocument) -> None:
        for name, count in _counts(given).items():
            self._tokens[name] = min(self._tokens.get(name, 0) + count, MAX_SAFE_INTEGER)
            self.is_known = True


def _counts(given: JsonDocument) -> dict[str, int]:
    found: dict[str, Any] = {}
    for name, spellings in _TOKENS.items():
        found[name] = next((given[spelling] for spelling in spellings if spelling in given), None)
    counts = {name: count for name, count in found.items() if type(count) is int and 0 <= count <= MAX_SAFE_INTEGER}
    # Some agents count thoughts as part of the output, others, such as OpenCode, beside it, as their total shows.
    if sum(counts.values()) == given.get("totalTokens") and "output_tokens" in counts:
        counts["output_tokens"] += counts.get("reasoning_tokens", 0)
    return counts
