"""The trace that a run belongs to, for the CLI to pass on to the model's API (SPEC AOX-201)."""

import re
from collections.abc import Mapping
from typing import Final

from ao_protocol.wire import JsonObject

_TRACEPARENT: Final = re.compile(r"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")
"""A W3C trace context, whose ids are not all zeros. What is written otherwise could be a header of its own, and is
left out."""
_HEADERS: Final = "ANTHROPIC_CUSTOM_HEADERS"
"""The CLI reads it once, when it starts: `name: value`, one a line."""


def trace_headers(metadata: JsonObject, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variable by which the CLI sends `traceparent`, besides the headers that it sends already.

    That of the run's metadata counts, else the variable TRACEPARENT; empty where neither is there.
    """
    candidates = (metadata.get("traceparent"), environment.get("TRACEPARENT"))
    valid = (given for given in candidates if isinstance(given, str) and _TRACEPARENT.fullmatch(given))
    traceparent = next(valid, None)
    if traceparent is None:
        return {}
    others = environment.get(_HEADERS)
    header = f"traceparent: {traceparent}"
    return {_HEADERS: f"{others}\n{header}" if others else header}
