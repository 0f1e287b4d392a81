"""What is wrong with the invocations that a runner has sent (SPEC 4, 11.1, 11.4)."""

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from ao_conformance.runner_suite.journal import invocations_of, starts_of
from ao_conformance.runner_suite.play import Played
from ao_conformance.verdict import Finding
from ao_protocol.framing import MAX_INVOCATION_BYTES, NotIJson, decode_object
from ao_protocol.published import validator_for

BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
WITH_OPTIONAL_FIELDS: Final = ("limits", "control", "agent_blueprint")
"""What of an invocation has optional fields, beside its first level."""


def judge_invocations(played: Played) -> Iterator[Finding]:
    """Find what is wrong with each invocation, and with all of them together."""
    sent = invocations_of(played.notes)
    yield from _of_unreadable_lines(played)
    for line in played.invocation_lines:
        yield from _of_the_line(line)
    versions = played.vector.description["schema_versions"]
    for invocation in sent:
        for name in ("run_id", "session_id"):
            if not isinstance(invocation.get(name), str) or not invocation[name]:
                yield Finding("AOX-232", f"a {name} in the invocation", f"{invocation.get(name)!r}")
        if invocation.get("schema_version") not in versions:
            yield Finding("AOX-250", f"a version among {versions}", f"{invocation.get('schema_version')!r}")
        yield from _of_the_form(invocation)
    if len({str(invocation.get("session_id")) for invocation in sent}) > 1:
        yield Finding("AOX-232", "the same session_id in every run of the session", "several")


def _of_unreadable_lines(played: Played) -> Iterator[Finding]:
    for note in played.notes:
        if note.what == "no_object":
            yield Finding("AOX-237", "one JSON object on each line of stdin", f"{note.fields['text']!r}")
    reads = starts_of(played.notes) and not played.vector.executor.get("deaf")
    if reads and not invocations_of(played.notes):
        yield Finding("AOX-237", "an invocation on stdin, and a line end behind it", "no such line came")


def _of_the_line(line: bytes) -> Iterator[Finding]:
    if line.startswith(BYTE_ORDER_MARK):
        yield Finding("AOX-237", "an invocation without a byte-order mark", f"{line[:20]!r}")
    if len(line) > MAX_INVOCATION_BYTES:
        yield Finding("AOX-237", f"an invocation of at most {MAX_INVOCATION_BYTES} bytes", f"{len(line)}")
    try:
        decode_object(line)
        json.dumps(json.loads(line), ensure_ascii=False).encode()
    except (NotIJson, UnicodeEncodeError) as error:
        yield Finding("AOX-237", "an invocation in I-JSON", str(error)[:300])


def _of_the_form(invocation: Mapping[str, Any]) -> Iterator[Finding]:
    """Find what makes an invocation none; ids and versions have rules of their own."""
    for place, fields in [("$", invocation), *((f"$.{name}", invocation.get(name)) for name in WITH_OPTIONAL_FIELDS)]:
        for name, value in fields.items() if isinstance(fields, Mapping) else ():
            if value is None:
                yield Finding("AOX-237", f"{place}.{name} with a value, or left out", "null")
    for problem in validator_for("invocation").iter_errors(invocation):
        place = "$" + "".join(f".{part}" for part in problem.instance_path)
        if place not in {"$.run_id", "$.session_id", "$.schema_version"}:
            yield Finding("AOX-237", f"an invocation as SPEC 4 has it, at {place}", problem.message[:300])
