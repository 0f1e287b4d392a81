"""Which trace a run belongs to (AOX-201)."""

import re
from collections.abc import Mapping
from typing import Any

TRACEPARENT = re.compile(r"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")


def traceparent_of(invocation: dict[str, Any], environment: Mapping[str, str]) -> str | None:
    """Return the W3C trace context of a run: the invocation's, or else that of the environment."""
    named = invocation.get("metadata", {}).get("traceparent")
    for said in (named, environment.get("TRACEPARENT")):
        if isinstance(said, str) and TRACEPARENT.fullmatch(said):
            return said
    return None
