"""Whether every byte of stdout belongs to an event line (SPEC 3, 10)."""

import json
from collections.abc import Iterator
from typing import Any, Final

from ao_conformance.judging.reading import Output, Unreadable
from ao_conformance.verdict import Finding
from ao_protocol.framing import MAX_EVENT_BYTES

OF_FORM: Final = "AOX-020"
BOM: Final = b"\xef\xbb\xbf"
FAULTS_OF_A_DOCUMENT: Final = ("duplicate key", "is outside", "is too large", "nested deeper", "lone surrogate")


def judge_lines(output: Output, broken_line: str = OF_FORM) -> Iterator[Finding]:
    """Find what is no line of an event: noise, and lines of a wrong form.

    `broken_line` is the requirement that a line breaks which is JSON no more, as one that was cut off.
    """
    for line in output.lines:
        if line.raw.startswith(BOM):
            yield Finding(
                "AOX-020", "no byte-order mark on stdout", f"line {line.number} begins with one", line=line.number
            )
        if line.raw.endswith(b"\r\n"):
            yield Finding(
                "AOX-020", "a line that LF alone ends", f"line {line.number} ends with CR LF", line=line.number
            )
        if b"\\u" in line.raw and _has_lone_surrogate(line.raw):
            yield Finding(
                "AOX-032", "U+FFFD in the place of a lone surrogate", f"line {line.number} has one", line=line.number
            )
    yield from (_unreadable(wrong, broken_line) for wrong in output.unreadable)
    ended = bool(output.events) and output.events[-1].is_terminal
    if ended and output.unfinished.lstrip().startswith(b"{"):
        yield Finding(
            "AOX-020",
            "an LF behind the last event",
            f"stdout ends with {output.unfinished[-80:]!r}",
            line=len(output.lines) + 1,
        )


def _unreadable(wrong: Unreadable, broken_line: str) -> Finding:
    shown = wrong.raw[:120].decode(errors="backslashreplace")
    if any(fault in wrong.reason for fault in FAULTS_OF_A_DOCUMENT):
        return Finding("AOX-030", "a line that every receiver accepts", f"{wrong.reason}: {shown}", line=wrong.line)
    if not wrong.raw.strip():
        return Finding("AOX-020", "no blank line on stdout", f"line {wrong.line} is blank", line=wrong.line)
    if "event_type" in wrong.reason:
        return Finding("AOX-084", "an event_type in every object on stdout", shown, line=wrong.line)
    if wrong.is_json or "UTF-8" in wrong.reason or b"\x1b" in wrong.raw:
        return Finding(
            broken_line, "one JSON object in UTF-8 on each line", f"{wrong.reason}: {shown}", line=wrong.line
        )
    return Finding("AOX-190", "nothing but events on stdout", f"line {wrong.line} is {shown}", line=wrong.line)


def judge_sizes(output: Output, invocation: dict[str, Any] | None) -> Iterator[Finding]:
    """Find event lines that are longer than the invocation allows."""
    said = ((invocation or {}).get("limits") or {}).get("max_event_bytes")
    limit = int(said) if isinstance(said, int | float) else MAX_EVENT_BYTES
    for line in output.lines:
        if len(line.raw) > limit:
            yield Finding(
                "AOX-028",
                f"no event line over {limit} bytes",
                f"line {line.number} has {len(line.raw)}",
                line=line.number,
            )


def _has_lone_surrogate(raw: bytes) -> bool:
    try:
        text = json.dumps(json.loads(raw), ensure_ascii=False)
        text.encode()
    except UnicodeEncodeError:
        return True
    except (ValueError, RecursionError):
        return False
    return False
