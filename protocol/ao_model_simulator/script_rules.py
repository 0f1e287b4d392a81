"""Which fields of an answer go together, once for Python and once for JSON Schema.

Both say the same: content comes from one source; there is at most one fault; `status` and `stall` are
faults that leave no content; `error` belongs to `status` and `text_times` to a text.
"""

from collections.abc import Set as AbstractSet
from typing import Any, Final

CONTENT_SOURCES: Final = ("text", "text_file", "json", "content")
FAULTS_WITHOUT_CONTENT: Final = ("status", "stall")
FAULTS_IN_CONTENT: Final = ("stall_after_chars", "cut", "cut_after_chars", "malformed", "stream_error")
FAULTS: Final = FAULTS_WITHOUT_CONTENT + FAULTS_IN_CONTENT
FLAGS: Final = frozenset({"stall", "cut", "malformed"})


def find_contradiction(given: AbstractSet[str]) -> str | None:
    """Return why these fields, all of them given and meant, make no answer; None when they do."""
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
    """Say `find_contradiction` in JSON Schema."""
    faults = [_is_given(name) for name in FAULTS]
    pairs = [{"allOf": [one, other]} for n, one in enumerate(faults) for other in faults[n + 1 :]]
    needs_status = {"allOf": [_is_given("error"), {"not": _is_given("status")}]}
    has_text = {"anyOf": [_is_given("text"), _is_given("text_file")]}
    schema["oneOf"] = [_is_given(name) for name in CONTENT_SOURCES + FAULTS_WITHOUT_CONTENT]
    schema["not"] = {"anyOf": [*pairs, needs_status]}
    schema["dependentSchemas"] = {"text_times": has_text}


def _is_given(name: str) -> dict[str, Any]:
    """A flag that is false and a field that is null are as good as absent, but `json: null` is an answer."""
    if name == "json":
        return {"required": [name]}
    value = {"const": True} if name in FLAGS else {"not": {"type": "null"}}
    return {"required": [name], "properties": {name: value}}
