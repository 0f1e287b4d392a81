"""The suite for executors: read the description, play every vector that applies, judge, and count."""

import math
import shlex
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any, Final

from ao_conformance.driver.leftovers import temporary_folder
from ao_conformance.driver.process import Process, Start
from ao_conformance.driver.transcript import Stopped, Transcript
from ao_conformance.judging.judge import judge, judged_in
from ao_conformance.masking import redactor_of
from ao_conformance.model_stand_in import ECHO, LINGER, NoModel, echoed, wanted_prompt
from ao_conformance.placeholders import CannotFill, NoSession
from ao_conformance.play import play
from ao_conformance.play_result import DESCRIBE_SECONDS, PlayResult
from ao_conformance.subject import USUAL_SHELL_TOOL, Subject
from ao_conformance.surroundings import Surroundings
from ao_conformance.tally import KnownFailing, SuiteRun, differ, over_all_repeats, tally, with_root_causes
from ao_conformance.vectors import FIRST_PLAYED, ProcessVector, load_process_vectors
from ao_conformance.verdict import (
    BROKEN,
    Finding,
    Lateness,
    Reason,
    SuiteResult,
    VectorResult,
    Verdict,
)
from ao_protocol.framing import NotIJson, decode_object

PATIENCE_SECONDS: Final = 20.0
"""How long the suite waits for the description that it needs, whatever it says of the duration."""
LEVELS: Final = ("core", "standard")
PLAYED_LEVELS: Final = (*LEVELS, "capability")
PLAYED_AGAIN: Final = 6
"""The maximum number of late vectors that are played again. If more are late, the machine is not the cause."""
OF_TIME: Final = frozenset({"AOX-080", "AOX-091", "AOX-120", "AOX-191", "AOX-193"})
"""The requirements that limit a duration."""
LATE: Final = frozenset({Lateness.END, Lateness.EXIT, Lateness.EVENT})
HANGING: Final = 3
"""After so many plays that had to be ended, and half of all, the rest is not played."""
STARTS: Final = 3
"""How often a slow description is measured; the fastest counts."""
ECHO_PROBE: Final = "heron"
"""A short and plain prompt, so that an echo that alters prompts is still recognized as one."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The options for a test of an executor."""

    command: tuple[str, ...]
    level: str | None = "standard"
    """`core` or `standard`; both include capabilities. None: core first, then the highest level that is reached."""
    vectors: Sequence[ProcessVector] = ()
    base: Mapping[str, Any] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    shell_tool: tuple[str, str] = USUAL_SHELL_TOOL
    known_failing: KnownFailing = field(default_factory=KnownFailing)
    counts_should: bool = False
    """Whether a SHOULD that is not followed fails."""
    seed: int = 1
    repeats: int = 1
    jobs: int = 4
    patience_seconds: float | None = None
    """If set, a limit for `describe`, in seconds; late vectors are then not played again."""
    options: tuple[str, ...] = ()
    """The command-line options that a reproducing command line repeats."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """A vector that was played, or the reason why it was not."""

    vector: ProcessVector
    seed: int
    reason: str = ""
    """Why nothing can be judged."""
    verdict: Verdict = Verdict.NOT_APPLICABLE
    """The verdict on the vector if nothing can be judged."""
    findings: tuple[Finding, ...] = ()
    played: PlayResult | None = None
    seconds: float = 0.0


Plays = list[list[Attempt]]
"""The attempts at some vectors, in their order, for each repeat."""


def run_suite(plan: Plan, tell: Callable[[VectorResult], None] = lambda result: None) -> SuiteResult:
    """Play a plan and return the result. `tell` is called with the result of each vector as soon as it is judged.

    Raises:
        OSError: The command cannot be started.
    """
    plays = PlannedPlays(plan, tell)
    if plan.level is not None:
        return plays.result(plays.play(plan.vectors, plan.level), plan.level)
    return climb(plays)


def climb(plays: "PlannedPlays") -> SuiteResult:
    """Play core, then standard if core is met, and return the result of the highest level that is reached.

    If all other vectors of standard are met, vectors of capabilities are played at standard, and again at core if they
    fail there. Otherwise they are played at core, where the executable is fed as by a runner.
    """
    of_level = {level: [one for one in plays.plan.vectors if one.level == level] for level in PLAYED_LEVELS}
    core = plays.play(of_level["core"], "core")
    met = plays.result(core, "core")
    if not met.conforms:
        return replace(met, reached="", missing=met.broken)
    standard = plays.play(of_level["standard"], "standard")
    goes_on = plays.result(_joined(core, standard), "standard")
    level = "standard" if goes_on.conforms else "core"
    declared = plays.play(of_level["capability"], level)
    whole = plays.result(_joined(core, standard, declared), "standard")
    if whole.conforms:
        return replace(whole, reached="standard")
    if level == "standard":
        declared = plays.play(of_level["capability"], "core")
    met = plays.result(_joined(core, declared), "core")
    missing = tuple(rule for rule in whole.broken if rule.level == "standard") if met.conforms else met.broken
    return replace(met, reached="core" if met.conforms else "", missing=missing or whole.broken)


def describe(plan: Plan) -> Mapping[str, Any] | None:
    """Return the description of the executable; empty if it cannot be read, and None if `describe` hangs.

    Raises:
        OSError: The executable cannot be started.
    """
    with temporary_folder("ao-conformance-") as scratch:
        plain = Surroundings(Subject(plan.command, {}, environment=plan.environment)).plain_environment(scratch)
        with Process(Start([*plan.command, "describe"], scratch, plain, "closed"), Transcript()) as process:
            process.wait_for(lambda: False, min(PATIENCE_SECONDS, plan.patience_seconds or PATIENCE_SECONDS))
            lines = process.lines
            if not lines and process.exit_code is None:
                return None
    try:
        return dict(decode_object(lines[0].raw.rstrip(b"\n"))) if lines else {}
    except NotIJson:
        return {}


class PlannedPlays:
    """The plays of one plan with one executable, and their result."""

    def __init__(self, plan: Plan, tell: Callable[[VectorResult], None]) -> None:
        """Read the description.

        Raises:
            OSError: The executable cannot be started.
        """
        self.plan = plan
        self._tell = tell
        self._run = SuiteRun(plan.known_failing)
        description = describe(plan)
        subject = Subject(plan.command, description or {}, plan.base, plan.environment, shell_tool=plan.shell_tool)
        subject = replace(subject, counts_should=plan.counts_should)
        self._surroundings = Surroundings(subject, redactor_of(plan.environment))
        self._knows_echo = False
        self._hung = self._played = 0
        self._hangs = description is None
        """Whether describe or most plays had to be ended, so that others would only take time."""

    def play(self, vectors: Sequence[ProcessVector], level: str) -> Plays:
        """Play vectors at a level, once for each repeat of the plan."""
        return [self._play_all(vectors, level, self.plan.seed + repeat) for repeat in range(self.plan.repeats)]

    def result(self, plays: Plays, level: str) -> SuiteResult:
        """Return the result of plays at a level."""
        plan, subject = self.plan, self._surroundings.subject
        rounds = [
            with_root_causes([one.vector for one in attempts], [self._judged(one, level) for one in attempts])
            for attempts in plays
        ]
        vectors = [over_all_repeats(results) for results in zip(*rounds, strict=True)]
        unstable = tuple(results[0].id for results in zip(*rounds, strict=True) if differ(results))
        requirements = tally(vectors, level, subject.declares)
        chosen = [vector for vector in load_process_vectors() if vector.id in {one.id for one in plan.vectors}]
        return self._run.result(
            vectors,
            requirements,
            suite="executor",
            command=plan.command,
            name=subject.name,
            version=subject.version,
            level=level,
            seed=plan.seed,
            repeats=plan.repeats,
            description=subject.description,
            unstable=unstable,
            left_out=len(load_process_vectors()) - len(chosen),
        )

    def _play_all(self, vectors: Sequence[ProcessVector], level: str, seed: int) -> list[Attempt]:
        played: dict[str, Future[Attempt]] = {}
        missing = Reason.NO_RUN
        with ThreadPoolExecutor(self.plan.jobs, thread_name_prefix="conformance") as pool:
            try:
                first = [vector for vector in vectors if vector.id == FIRST_PLAYED]
                others = sorted(vectors, key=lambda vector: -vector.works_for_seconds)
                for vector in first:
                    played[vector.id] = pool.submit(self._told, vector, level, seed)
                    shown = played[vector.id].result()
                    if self._is_hanging(shown, level) and shown.played is not None and shown.played.lines:
                        played[vector.id] = pool.submit(attempt, vector, self._surroundings, seed, level)
                        shown = played[vector.id].result()
                    if self._is_hanging(shown, level):
                        missing = Reason.HANGS
                    if missing is Reason.HANGS or _has_no_event(self._judged(shown, level)):
                        others = [vector for vector in others if vector.source.get("arguments")]
                self._look_for_echo(others)
                for vector in others:
                    if vector.id not in played:
                        played[vector.id] = pool.submit(self._told, vector, level, seed)
                wait(played.values())
            except KeyboardInterrupt:
                missing = Reason.INTERRUPTED
                self._surroundings.stop.set()
                pool.shutdown(cancel_futures=True)
        attempts = [
            played[vector.id].result()
            if vector.id in played and not played[vector.id].cancelled()
            else Attempt(vector, seed, missing, Verdict.NEVER_EXERCISED)
            for vector in vectors
        ]
        return attempts if self._hangs or len(played) < len(vectors) else self._late_ones_again(attempts, level)

    def _look_for_echo(self, vectors: Sequence[ProcessVector]) -> None:
        """Find out once, if a vector depends on it, whether an executor without a model answers with its prompt."""
        if not self._knows_echo and any(wanted_prompt(vector.model_script) is not None for vector in vectors):
            self._knows_echo = True
            subject = self._surroundings.subject
            echoes = _echoes(self._surroundings, self.plan.seed)
            self._surroundings = replace(self._surroundings, subject=replace(subject, echoes=echoes))

    def _late_ones_again(self, attempts: list[Attempt], level: str) -> list[Attempt]:
        again: set[str] = set()
        for may_be_the_machine in (_is_late, _tells_late) if self.plan.patience_seconds is None else ():
            late = [one.vector.id for one in attempts if may_be_the_machine(self._judged(one, level))]
            again.update(late if len(late) <= PLAYED_AGAIN else ())
        return [
            attempt(one.vector, self._surroundings, one.seed, level) if one.vector.id in again else one
            for one in attempts
        ]

    def _told(self, vector: ProcessVector, level: str, seed: int) -> Attempt:
        if self._hangs and "describe" not in vector.id:
            return Attempt(vector, seed, Reason.HANGS, Verdict.NEVER_EXERCISED)
        found = attempt(vector, self._surroundings, seed, level)
        self._tell(self._judged(found, level))
        self._played += 1
        self._hung += self._is_hanging(found, level)
        self._hangs = self._hangs or self._hung >= max(HANGING, self._played / 2)
        return found

    def _is_hanging(self, found: Attempt, level: str) -> bool:
        """Return whether a play had to be ended, which is a failure of the executable."""
        had_to_be_ended = found.played is not None and (found.played.killed or found.played.left_with_stdin)
        return had_to_be_ended and self._judged(found, level).verdict in BROKEN

    def _judged(self, found: Attempt, level: str) -> VectorResult:
        return judged(found, self._surroundings.subject, level, self.plan.options)


def _joined(*plays: Plays) -> Plays:
    return [list(chain.from_iterable(groups)) for groups in zip(*plays, strict=True)]


def _echoes(surroundings: Surroundings, seed: int) -> bool:
    """Play the first vector and return whether an executor without a model answers with its prompt."""
    subject = surroundings.subject
    if not subject.description or subject.has_model or subject.agent_type == "procedural":
        return False
    vector = next(vector for vector in load_process_vectors() if vector.id == FIRST_PLAYED)
    asked = {**vector.source["invocation"], "parameters": {"prompt": ECHO_PROBE}}
    probe = replace(vector, source={**vector.source, "invocation": asked, "environment": ECHO})
    return echoed(play(probe, surroundings, seed, feeds=True).lines) == ECHO_PROBE


def _has_no_event(result: VectorResult) -> bool:
    """Return whether a play failed without a single event, so that other vectors would show nothing."""
    said = [entry.text for entry in result.transcript if entry.channel == "stdout"]
    return result.verdict is Verdict.FAIL and not any("event_type" in text for text in said)


def _is_late(result: VectorResult) -> bool:
    """Return whether all findings are about lateness. Such a vector is played again, alone, before it counts."""
    return bool(result.findings) and all(
        finding.requirement in OF_TIME or finding.lateness in LATE for finding in result.findings
    )


def _tells_late(result: VectorResult) -> bool:
    """Return whether an event came long after its timestamp, whatever else was found: a delayed suite reads late."""
    return any(finding.lateness is Lateness.EVENT for finding in result.findings)


def attempt(vector: ProcessVector, surroundings: Surroundings, seed: int, level: str) -> Attempt:
    """Play a vector at a level. At core, the executable is fed as by a conforming runner.

    A vector of core is always played in this way.
    """
    began = time.monotonic()
    if reason := why_not(vector, surroundings.subject, level):
        verdict = Verdict.NEVER_EXERCISED if reason is Reason.NO_DESCRIPTION else Verdict.NOT_APPLICABLE
        return Attempt(vector, seed, reason, verdict)
    try:
        played = play(vector, surroundings, seed, feeds="core" in (vector.level, level))
        for _ in range(STARTS - 1):
            if vector.source.get("arguments") and not played.killed and played.working_seconds > DESCRIBE_SECONDS:
                again = play(vector, surroundings, seed, feeds=True)
                played = min(played, again, key=lambda one: one.working_seconds)
    except NoSession:
        finding = Finding("AOX-082", "session_bound in the run before, so that it can be gone on with", "none came")
        return Attempt(vector, seed, verdict=Verdict.FAIL, findings=(finding,))
    except CannotFill as missing:
        return Attempt(vector, seed, missing.args[0])
    except (NoModel, Stopped) as missing:
        return Attempt(vector, seed, missing.args[0], Verdict.NEVER_EXERCISED)
    except Exception:  # noqa: BLE001  # an error of the suite ends one vector only, and is reported as such
        return Attempt(vector, seed, traceback.format_exc(limit=-6), Verdict.HARNESS_ERROR)
    return Attempt(vector, seed, played=played, seconds=round(time.monotonic() - began, 2))


def why_not(vector: ProcessVector, subject: Subject, level: str) -> str:
    """Return why a vector does not apply; empty if it does."""
    if not subject.description and not {"AOX-120", "AOX-190"} & set(vector.requirements):
        return Reason.NO_DESCRIPTION
    if vector.level == "standard" and level == "core":
        return Reason.ABOVE_LEVEL
    unwanted = vector.source.get("without")
    needs = (vector.capability, *vector.source.get("also", ()), unwanted and f"!{unwanted}")
    for needed in filter(None, needs):
        if not subject.declares(needed):
            return f"{needed.removeprefix('!')} is {'' if needed.startswith('!') else 'not '}declared"
    spoken = vector.source.get("speaks")
    if spoken and spoken not in subject.description.get("schema_versions", []):
        return f"version {spoken} is not spoken"
    agent = vector.source.get("agent")
    return f"agents of type {agent} are not served" if agent and agent not in subject.agent_types else ""


def judged(found: Attempt, subject: Subject, level: str, options: Sequence[str]) -> VectorResult:
    """Return the result of an attempt at a level. `options` are those that a reproducing command line repeats."""
    vector, played = found.vector, found.played
    if played is None:
        nothing = vector.result(found.verdict, found.reason)
        return replace(nothing, findings=found.findings, judged=vector.requirements if found.findings else ())
    try:
        findings = judge(subject, played, level)
    except Exception:  # noqa: BLE001  # the same for an error of the judge
        return vector.result(Verdict.HARNESS_ERROR, traceback.format_exc(limit=-6))
    if nothing_shown := shows_nothing(vector, subject, played, findings):
        return nothing_shown
    return vector.judged(
        findings,
        seconds=found.seconds,
        transcript=played.transcript,
        reproduce=reproduce_line(("--level", level, *options), vector.id, found.seed, subject.command),
        hint=vector.hint if any(finding.requirement == vector.requirements[0] for finding in findings) else "",
        judged=tuple(judged_in(played)),
    )


def shows_nothing(
    vector: ProcessVector, subject: Subject, played: PlayResult, findings: Sequence[Finding]
) -> VectorResult | None:
    """Return the result of a play that shows nothing, for or against the executable; None if it shows something."""
    if not subject.description and not played.lines and not vector.source.get("arguments"):
        return vector.result(Verdict.NEVER_EXERCISED, Reason.NO_DESCRIPTION)
    if played.unreached and vector.may_not_come and not _has_failure(findings):
        moment = played.unreached[0]
        never_came = vector.result(Verdict.NEVER_EXERCISED, f"the moment {moment} never came")
        return replace(never_came, unreached=moment)
    if _did_not_last(vector, subject, played, findings):
        reason = f"{LINGER} (SPEC 12) has no effect: the work lasts no longer"
        return vector.result(Verdict.NEVER_EXERCISED, reason)
    shown_by = vector.source.get("shown_by", "")
    if shown_by.encode() not in played.stderr and not _has_failure(findings):
        hooks = " and ".join(vector.source["environment"])
        reason = f"{hooks} (SPEC 12) has no effect: {shown_by!r} is not on stderr"
        return vector.result(Verdict.NEVER_EXERCISED, reason)
    return None


def _did_not_last(vector: ProcessVector, subject: Subject, played: PlayResult, findings: Sequence[Finding]) -> bool:
    """Return whether a moment could not come because the work ended at once, which this executor may do."""
    if not vector.may_not_come or subject.has_model or subject.agent_type == "procedural":
        return False
    took = (played.exited_at or math.inf) - played.began_at
    others = [finding for finding in findings if finding.requirement != vector.blames.get("gap")]
    return took < vector.works_for_seconds and played.cancelled_at is None and not _has_failure(others)


def _has_failure(findings: Sequence[Finding]) -> bool:
    return any(finding.verdict is Verdict.FAIL for finding in findings)


def reproduce_line(options: Sequence[str], vector: str, seed: int, command: Sequence[str]) -> str:
    """Return a shell command that plays one vector again."""
    return shlex.join(["ao", "conformance", "run", *options, "--only", vector, "--seed", str(seed), "--", *command])
