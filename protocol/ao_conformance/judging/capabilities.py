"""Judge the description, and whether the executor does only what it declares (SPEC 7)."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from ao_conformance.driver.transcript import complaint
from ao_conformance.judging.events import unknown_fields
from ao_conformance.judging.output import Evidence
from ao_conformance.judging.runs import describe_exit
from ao_conformance.matching import difference
from ao_conformance.play_result import DESCRIBE_SECONDS, PlayResult
from ao_conformance.subject import Subject
from ao_conformance.verdict import Finding, Lateness
from ao_protocol.framing import NotIJson, decode_object
from ao_protocol.json_path import path_to
from ao_protocol.published import validator_for

CAPABILITY_OF: Final = {
    "message_delta": "streaming",
    "session_bound": "resume",
    "output_validation": "output_schema",
    "input_requested": "input",
    "input_resolved": "input",
}
"""The capability to which a type of event belongs (SPEC 5)."""
OF_BLUEPRINTS: Final = ("output_schema", "output_format", "default_output_schema")


def judge_description(subject: Subject, played: PlayResult, kind: str) -> Iterator[Finding]:
    """Find errors in the one line that `describe` or `check` prints."""
    rule = played.vector.blamed("stdout")
    if len(played.lines) != 1 or played.unfinished_line:
        wanted = f"`{kind}` on one line that LF ends, and nothing else"
        yield Finding(rule, wanted, _printed(played), lateness=Lateness.KILLED if played.killed else None)
        return
    try:
        document = decode_object(played.lines[0].raw.removesuffix(b"\n"))
    except NotIJson as problem:
        yield Finding(rule, "one JSON object", str(problem), line=1)
        return
    if kind == "check":
        yield from _judge_check(dict(document), played)
        return
    for wrong in validator_for("description").iter_errors(document):
        wanted = f"{path_to(wrong.instance_path)} as the schema of descriptions has it"
        yield Finding(played.vector.blamed("form"), wanted, wrong.message[:300], line=1)
    if unsorted := difference({"$newest_first": True}, document.get("schema_versions"), "$.schema_versions"):
        yield Finding(played.vector.blamed("form"), "schema_versions, newest first", unsorted, line=1)
    if unknown := unknown_fields(document, "description"):
        yield Finding("AOX-016", "the fields that SPEC 7 gives to a description", ", ".join(unknown[:5]), line=1)
    yield from _judge_config_schema(document.get("config_schema"), played)
    executor, command = document.get("executor"), subject.command[0].rpartition("/")[2]
    if command.startswith("ao-") and command.endswith("-exec") and isinstance(executor, dict):
        name, wanted = executor.get("name"), command.removeprefix("ao-").removesuffix("-exec")
        if name != wanted:
            yield Finding("AOX-124", f"executor.name {wanted!r}, as in {command}", f"{name!r}", line=1)
    yield from _judge_effort(played)


def _judge_config_schema(schema: Any, played: PlayResult) -> Iterator[Finding]:  # noqa: ANN401  # any JSON
    if schema is not None and "AOX-122" in played.vector.requirements:
        from ao_protocol.contracts import InvalidSchema, check_schema

        try:
            check_schema(schema)
        except InvalidSchema as problem:
            yield Finding("AOX-122", "a config_schema that is valid JSON Schema Draft-7", str(problem)[:300], line=1)


def _judge_effort(played: PlayResult) -> Iterator[Finding]:
    if played.left_files:
        yield Finding("AOX-120", "no file is written", ", ".join(played.left_files[:5]))
    if played.working_seconds > DESCRIBE_SECONDS:
        found = f"after {played.working_seconds:.1f} s, the fastest of three"
        yield Finding("AOX-120", "a description within a second", found)


def _printed(played: PlayResult) -> str:
    """Return a text about stdout that is not exactly one line."""
    begun = played.unfinished_line[:200]
    if not played.lines and not begun:
        said = complaint(played.stderr)
        return f"nothing on stdout, {describe_exit(played.exit_code)}" + (f"; stderr: {said}" if said else "")
    if not played.lines:
        return f"no LF at the end of {begun!r}"
    shown = b"".join(line.raw for line in played.lines)[:200] + begun
    return f"{len(played.lines)} lines{' and one without LF' if begun else ''}: {shown!r}"


def _judge_check(document: dict[str, object], played: PlayResult) -> Iterator[Finding]:
    rule, ok, problems = played.vector.requirements[0], document.get("ok"), document.get("problems")
    are_texts = isinstance(problems, list) and all(isinstance(text, str) for text in problems)
    code = 0 if ok else 1
    if not isinstance(ok, bool) or not are_texts:
        yield Finding(rule, '{"ok": boolean, "problems": [string, …]}', str(document)[:200], line=1)
    elif played.exit_code != code:
        yield Finding(rule, f"exit {code} where ok is {ok}", describe_exit(played.exit_code), line=1)


def judge_declared(seen: Evidence) -> Iterator[Finding]:
    """Find events of a capability that is not declared, and the lack of events that a declared one requires."""
    declares = seen.subject.declares
    for event in seen.output.events:
        capability = CAPABILITY_OF.get(event.type)
        if capability and not declares(capability):
            wanted = f"no {event.type}, for the description does not declare {capability}"
            yield event.breaks("AOX-123", wanted, "one came")
            break
    for run in seen.output.runs:
        last, is_bound = run[-1], any(event.type == "session_bound" for event in run)
        if last.type != "result":
            continue
        if isinstance(last.document.get("output"), dict) and not declares("output_schema"):
            wanted = "no output, for the description does not declare output_schema"
            yield last.breaks("AOX-123", wanted, "the result has one")
        if declares("resume") and not is_bound:
            yield last.breaks("AOX-082", "session_bound in every run that asked the model", "none came")


def judge_contract(seen: Evidence) -> Iterator[Finding]:
    """Find results with their answer in the wrong field."""
    invocation, expected = seen.played.invocation, seen.played.vector.source["expect"]
    if invocation is None or seen.subject.agent_type != "autonomous" or not seen.subject.declares("output_schema"):
        return
    # A vector that expects `result_data` itself reports its absence.
    data_is_expected = any("result_data" in run.get("terminal", {}) for run in expected.get("runs", [expected]))
    blueprint = invocation.get("agent_blueprint")
    demanded = invocation.get("output_schema") is not None or (
        isinstance(blueprint, Mapping) and any(blueprint.get(name) is not None for name in OF_BLUEPRINTS)
    )
    hint = invocation.get("output_schema_hint") is not None
    for event in seen.output.events:
        if event.type != "result":
            continue
        text, data = event.document.get("result_text"), event.document.get("result_data")
        if demanded and text is not None and not (data is None and data_is_expected):
            wanted = "result_data, and no result_text, under an output contract"
            yield event.breaks("AOX-075", wanted, "result_text is there")
        elif not demanded and not hint and data is not None:
            wanted = "result_text, and no result_data, without an output contract"
            yield event.breaks("AOX-075", wanted, "result_data is there")
