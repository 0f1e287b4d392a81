"""The story of a suite: ask for the description, play every vector that applies, judge, and count."""

import re
import time
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any, Final

from ao_conformance.applicability import shows_nothing, why_not
from ao_conformance.driver.transcript import Stopped
from ao_conformance.echo import ECHO, echoed, wanted_prompt
from ao_conformance.filling import CannotFill, NoSession
from ao_conformance.judging.judge import judge, judged_in
from ao_conformance.known_failing import KnownFailing
from ao_conformance.model_stand_in import NoModel
from ao_conformance.play import play
from ao_conformance.repeats import differ, over_all_repeats
from ao_conformance.reproducing import reproduce_line
from ao_conformance.root_causes import with_root_causes
from ao_conformance.rules import requirements_by_id
from ao_conformance.subject import Subject
from ao_conformance.surroundings import Surroundings
from ao_conformance.tally import tally
from ao_conformance.vectors import FIRST_PLAYED, ProcessVector, load_process_vectors
from ao_conformance.verdict import INTERRUPTED, NO_RUN, Finding, SuiteResult, VectorResult, Verdict, worst
from ao_protocol.ijson import NotIJson, decode_object
from ao_protocol.schema_store import CURRENT_SCHEMAS

DESCRIBE_SECONDS: Final = 10.0
LEVELS: Final = ("core", "standard")
PLAYED_AGAIN: Final = 6
"""Where more vectors than that were late, it is not the machine."""
OF_TIME: Final = frozenset({"AOX-080", "AOX-091", "AOX-120", "AOX-191", "AOX-193"})
"""The requirements that say how long something may take."""
LATE_EVENT: Final = "it tells of a moment"
LATE: Final = re.compile(rf"^(after [0-9.]+ s|.*(lived on|was killed|no event came)|{LATE_EVENT})")
ECHO_PROBE: Final = "heron"
"""Short and plain, so that also an echo that spoils a prompt is known as one."""
DISTRIBUTION: Final = "ao-executor-protocol"


@dataclass(frozen=True, slots=True)
class Plan:
    """What a tester asked for."""

    command: tuple[str, ...]
    level: str = "standard"
    """`core` or `standard`; capabilities are looked at in both."""
    vectors: Sequence[ProcessVector] = ()
    base: Mapping[str, Any] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    known_failing: KnownFailing = field(default_factory=KnownFailing)
    seed: int = 1
    repeats: int = 1
    jobs: int = 4
    patience_seconds: float | None = None
    """Where it is given, `describe` is waited for no longer, and what was late is not played again."""
    options: tuple[str, ...] = ()
    """The options of the command line that a reproducing line has to repeat."""


def run_suite(plan: Plan, tell: Callable[[VectorResult], None] = lambda result: None) -> SuiteResult:
    """Play a plan and return the result; `tell` hears of each vector as soon as it is judged.

    Raises:
        OSError: the command cannot be started at all.
    """
    began, started_at = time.monotonic(), datetime.now(UTC)
    subject = Subject(plan.command, describe(plan), plan.base, plan.environment)
    rounds = [_play_all(plan, subject, plan.seed + repeat, tell) for repeat in range(plan.repeats)]
    vectors = [over_all_repeats(results) for results in zip(*rounds, strict=True)]
    unstable = tuple(results[0].id for results in zip(*rounds, strict=True) if differ(results))
    requirements = tally(vectors, plan.level, subject.declares)
    vectors, requirements, stale = plan.known_failing.apply(vectors, requirements)
    return SuiteResult(
        suite="executor",
        command=plan.command,
        name=subject.name,
        version=subject.version,
        protocol_version=CURRENT_SCHEMAS,
        suite_version=version(DISTRIBUTION),
        level=plan.level,
        seed=plan.seed,
        repeats=plan.repeats,
        started_at=started_at.strftime("%Y-%m-%dT%H:%M:%SZ"),
        seconds=round(time.monotonic() - began, 1),
        description=subject.description,
        vectors=tuple(vectors),
        requirements=tuple(requirements),
        stale=stale,
        unstable=unstable,
        left_out=len(load_process_vectors()) - sum(1 for vector in vectors if vector.reason != INTERRUPTED),
    )


def describe(plan: Plan) -> Mapping[str, Any]:
    """Return what the executable says of itself; nothing where that cannot be read, which a vector then tells.

    Raises:
        OSError: it cannot be started.
    """
    from ao_conformance.driver.process import Process
    from ao_conformance.driver.starting import Start
    from ao_conformance.driver.temporary_folder import temporary_folder
    from ao_conformance.driver.transcript import Transcript

    with temporary_folder("ao-conformance-") as scratch:
        plain = Surroundings(Subject(plan.command, {}, environment=plan.environment)).plain_environment(scratch)
        with Process(Start([*plan.command, "describe"], scratch, plain, "closed"), Transcript()) as process:
            process.wait_for(lambda: False, min(DESCRIBE_SECONDS, plan.patience_seconds or DESCRIBE_SECONDS))
            lines = process.lines
    try:
        return dict(decode_object(lines[0].raw.rstrip(b"\n"))) if lines else {}
    except NotIJson:
        return {}


def _play_all(plan: Plan, subject: Subject, seed: int, tell: Callable[[VectorResult], None]) -> list[VectorResult]:
    surroundings = Surroundings(subject)

    def one(vector: ProcessVector) -> VectorResult:
        result = _play_one(vector, plan, surroundings, seed)
        tell(result)
        return result

    played: dict[str, Future[VectorResult]] = {}
    missing = NO_RUN
    with ThreadPoolExecutor(plan.jobs, thread_name_prefix="conformance") as pool:
        try:
            first = [vector for vector in plan.vectors if vector.id == FIRST_PLAYED]
            others = sorted(plan.vectors, key=lambda vector: -vector.works_for_seconds)
            played |= {vector.id: pool.submit(one, vector) for vector in first}
            if any(_has_no_event(played[vector.id].result()) for vector in first):
                others = [vector for vector in others if vector.source.get("arguments")]
            elif any(wanted_prompt(vector) is not None for vector in others):
                echoes = _echoes(surroundings, seed)
                surroundings = replace(surroundings, subject=replace(subject, echoes=echoes))
            played |= {vector.id: pool.submit(one, vector) for vector in others if vector.id not in played}
            wait(played.values())
        except KeyboardInterrupt:
            missing = INTERRUPTED
            surroundings.stop.set()
            pool.shutdown(cancel_futures=True)
    results = [
        played[vector.id].result()
        if vector.id in played and not played[vector.id].cancelled()
        else _result(vector, Verdict.NOT_APPLICABLE, missing)
        for vector in plan.vectors
    ]
    again: set[str] = set()
    for may_be_the_machine in (_is_late, _tells_late) if plan.patience_seconds is None else ():
        late = [result.id for result in results if may_be_the_machine(result)]
        again.update(late if len(late) <= PLAYED_AGAIN and len(played) == len(plan.vectors) else ())
    counted = [
        _play_one(vector, plan, surroundings, seed) if vector.id in again else result
        for vector, result in zip(plan.vectors, results, strict=True)
    ]
    return with_root_causes(plan.vectors, counted)


def _echoes(surroundings: Surroundings, seed: int) -> bool:
    """Ask an executor that has no model, as the first vector does, and say whether it answers with its prompt."""
    subject = surroundings.subject
    if not subject.description or subject.has_model or subject.agent_type == "procedural":
        return False
    vector = next(vector for vector in load_process_vectors() if vector.id == FIRST_PLAYED)
    asked = {**vector.source["invocation"], "parameters": {"prompt": ECHO_PROBE}}
    probe = replace(vector, source={**vector.source, "invocation": asked, "environment": ECHO})
    return echoed(play(probe, surroundings, seed).lines) == ECHO_PROBE


def _has_no_event(result: VectorResult) -> bool:
    """Tell whether a play failed without a single event, so that there is nothing to judge in others."""
    said = [entry.text for entry in result.transcript if entry.channel == "stdout"]
    return result.verdict is Verdict.FAIL and not any("event_type" in text for text in said)


def _is_late(result: VectorResult) -> bool:
    """Tell whether all that was found is that something came late: then it is played again, alone, before it counts."""
    return bool(result.findings) and all(
        finding.requirement in OF_TIME or LATE.search(finding.found) for finding in result.findings
    )


def _tells_late(result: VectorResult) -> bool:
    """Tell whether an event came long after its time, beside whatever else was found: a suite held up reads late."""
    return any(LATE_EVENT in finding.found for finding in result.findings)


def _play_one(vector: ProcessVector, plan: Plan, surroundings: Surroundings, seed: int) -> VectorResult:
    began = time.monotonic()
    if reason := why_not(vector, surroundings.subject, plan.level):
        return _result(vector, Verdict.NOT_APPLICABLE, reason)
    try:
        played = play(vector, surroundings, seed)
        findings = _weigh(judge(surroundings.subject, played), plan.level)
    except NoSession:
        finding = Finding("AOX-082", "session_bound in the run before, so that it can be gone on with", "none came")
        return replace(_result(vector, Verdict.FAIL), findings=(finding,), judged=vector.requirements)
    except (CannotFill, NoModel, Stopped) as reason:
        return _result(vector, Verdict.NOT_APPLICABLE, str(reason))
    except Exception:  # noqa: BLE001  # a fault of the suite ends one vector, not all, and is told as what it is
        return _result(vector, Verdict.HARNESS_ERROR, traceback.format_exc(limit=-6))
    if unseen := shows_nothing(vector, surroundings.subject, played, findings):
        return _result(vector, Verdict.NOT_APPLICABLE, unseen)
    return replace(
        _result(vector, worst([Verdict.PASS, *(finding.verdict for finding in findings)])),
        findings=tuple(findings),
        seconds=round(time.monotonic() - began, 2),
        transcript=played.transcript,
        reproduce=reproduce_line(plan.options, vector.id, seed, plan.command),
        hint=vector.hint if any(finding.requirement == vector.requirements[0] for finding in findings) else "",
        judged=tuple(judged_in(played)),
    )


def _weigh(findings: Iterable[Finding], level: str) -> list[Finding]:
    """Return the findings with their weight: a SHOULD warns, and so does a rule of a level that was not asked for."""
    rules = requirements_by_id()
    return [
        replace(finding, verdict=Verdict.WARN)
        if finding.verdict is Verdict.FAIL
        and (
            rules[finding.requirement].keyword == "SHOULD"
            or (level == "core" and rules[finding.requirement].level == "standard")
        )
        else finding
        for finding in findings
    ]


def _fails(findings: Iterable[Finding]) -> bool:
    return any(finding.verdict is Verdict.FAIL for finding in findings)


def _result(vector: ProcessVector, verdict: Verdict, reason: str = "") -> VectorResult:
    return VectorResult(
        vector.id, vector.title, vector.topic, vector.level, vector.capability, vector.requirements, verdict, reason
    )
