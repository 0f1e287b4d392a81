"""Whether the description is right, and the executor does only what it declares (SPEC 7)."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from ao_conformance.driver.transcript import complaint
from ao_conformance.judging.ending import describe_exit
from ao_conformance.judging.events import unknown_fields
from ao_conformance.judging.output import Output
from ao_conformance.play_result import PlayResult
from ao_conformance.subject import Subject
from ao_conformance.verdict import Finding, Verdict
from ao_protocol.framing import NotIJson, decode_object
from ao_protocol.published import validator_for

DESCRIBE_SECONDS: Final = 1.0
SLACK_SECONDS: Final = 2.0
"""Interpreters start slowly on a busy machine; the rule's second is told as a warning before this."""
CAPABILITY_OF: Final = {
    "message_delta": "streaming",
    "session_bound": "resume",
    "output_validation": "output_schema",
}
"""Events that belong to a capability (SPEC 5)."""


def judge_description(subject: Subject, played: PlayResult, kind: str) -> Iterator[Finding]:
    """Find what is wrong with the one line that a verb prints."""
    rule = played.vector.blamed("stdout")
    if len(played.lines) != 1 or played.unfinished_line:
        yield Finding(rule, f"`{kind}` on one line that LF ends, and nothing else", _printed(played))
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
        place = "$" + "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in wrong.instance_path)
        yield Finding(
            played.vector.blamed("form"), f"{place} as the schema of descriptions has it", wrong.message[:300], line=1
        )
    if unknown := unknown_fields(document, "description"):
        yield Finding("AOX-016", "the fields that SPEC 7 gives to a description", ", ".join(unknown[:5]), line=1)
    yield from _judge_config_schema(document.get("config_schema"), played)
    executor = document.get("executor")
    command = subject.command[0].rpartition("/")[2]
    if command.startswith("ao-") and command.endswith("-exec") and isinstance(executor, dict):
        wanted = command.removeprefix("ao-").removesuffix("-exec")
        if executor.get("name") != wanted:
            yield Finding(
                "AOX-124",
                f"executor.name {wanted!r}, as in {command}",
                f"{executor.get('name')!r}",
                Verdict.WARN,
                line=1,
            )
    if played.left_files:
        yield Finding("AOX-120", "no file is written", ", ".join(played.left_files[:5]))
    took = (played.exited_at or 0.0) - played.began_at
    if took > DESCRIBE_SECONDS:
        verdict = Verdict.FAIL if took > DESCRIBE_SECONDS + SLACK_SECONDS else Verdict.WARN
        yield Finding("AOX-120", "a description within a second", f"after {took:.1f} s", verdict)


def _printed(played: PlayResult) -> str:
    """Return what stands on stdout in place of one line."""
    begun = played.unfinished_line[:200]
    if not played.lines and not begun:
        said = complaint(played.stderr)
        return f"nothing on stdout, {describe_exit(played.exit_code)}" + (f"; stderr: {said}" if said else "")
    if not played.lines:
        return f"no LF at the end of {begun!r}"
    shown = b"".join(line.raw for line in played.lines)[:200] + begun
    return f"{len(played.lines)} lines{' and one without LF' if begun else ''}: {shown!r}"


def _judge_config_schema(schema: Any, played: PlayResult) -> Iterator[Finding]:  # noqa: ANN401  # any JSON
    if schema is None or "AOX-122" not in played.vector.requirements:
        return
    from ao_protocol.contracts import InvalidSchema, check_schema

    try:
        check_schema(schema)
    except InvalidSchema as problem:
        yield Finding("AOX-122", "a config_schema that is valid JSON Schema Draft-7", str(problem)[:300], line=1)


def _judge_check(document: dict[str, object], played: PlayResult) -> Iterator[Finding]:
    rule = played.vector.requirements[0]
    problems = document.get("problems")
    if (
        not isinstance(document.get("ok"), bool)
        or not isinstance(problems, list)
        or not all(isinstance(text, str) for text in problems)
    ):
        yield Finding(rule, '{"ok": boolean, "problems": [string, …]}', str(document)[:200], line=1)
    elif played.exit_code != (0 if document["ok"] else 1):
        yield Finding(
            rule,
            f"exit {0 if document['ok'] else 1} where ok is {document['ok']}",
            describe_exit(played.exit_code),
            line=1,
        )


def judge_declared(subject: Subject, played: PlayResult, output: Output) -> Iterator[Finding]:
    """Find events of a capability that is not declared, and the lack of what a declared one promises."""
    for event in output.events:
        capability = CAPABILITY_OF.get(event.type)
        if capability and not subject.declares(capability):
            yield Finding(
                "AOX-123",
                f"no {event.type}, for the description does not declare {capability}",
                "one came",
                line=event.line,
            )
            break
    for run in output.runs:
        summary = run[-1].document.get("output")
        if run[-1].type == "result" and isinstance(summary, dict) and not subject.declares("output_schema"):
            yield Finding(
                "AOX-123",
                "no output, for the description does not declare output_schema",
                "the result has one",
                line=run[-1].line,
            )
        bound = any(event.type == "session_bound" for event in run)
        if subject.declares("resume") and run[-1].type == "result" and not bound:
            yield Finding("AOX-082", "session_bound in every run that asked the model", "none came", line=run[-1].line)


OF_BLUEPRINTS = ("output_schema", "output_format", "default_output_schema")


def judge_contract(
    subject: Subject, invocation: Mapping[str, Any] | None, output: Output, *, data_is_expected: bool = False
) -> Iterator[Finding]:
    """Find results whose answer stands in the wrong field.

    `data_is_expected` says that the vector itself names the data, so that it tells where there is none.
    """
    if invocation is None or subject.agent_type != "autonomous" or not subject.declares("output_schema"):
        return
    blueprint = invocation.get("agent_blueprint")
    demanded = invocation.get("output_schema") is not None or (
        isinstance(blueprint, Mapping) and any(blueprint.get(name) is not None for name in OF_BLUEPRINTS)
    )
    hint = invocation.get("output_schema_hint") is not None
    for event in output.events:
        if event.type != "result":
            continue
        text, data = event.document.get("result_text"), event.document.get("result_data")
        if demanded and text is not None and not (data is None and data_is_expected):
            yield Finding(
                "AOX-075",
                "result_data, and no result_text, under an output contract",
                "result_text is there",
                line=event.line,
            )
        elif not demanded and not hint and data is not None:
            yield Finding(
                "AOX-075",
                "result_text, and no result_data, without an output contract",
                "result_data is there",
                line=event.line,
            )
