"""The suite for runners: play every vector with the command, judge, and count."""

import time
import traceback
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from ao_conformance.judging.judge import weigh
from ao_conformance.runner_suite.runner_play import play
from ao_conformance.runner_suite.runner_rules import judge, judged_in
from ao_conformance.runner_suite.stage import RunnerVector, attaching, reason_against, reproduce_line, uses
from ao_conformance.tally import OF_RUNNERS, KnownFailing, SuiteRun, requirement_result
from ao_conformance.vectors import requirements_by_id
from ao_conformance.verdict import SuiteResult, VectorResult, Verdict


@dataclass(frozen=True, slots=True)
class RunnerPlan:
    """The options for a test of a runner."""

    command: tuple[str, ...]
    """The command of the runner, with placeholders."""
    vectors: Sequence[RunnerVector]
    resume: tuple[str, ...] = ()
    """The command that resumes the session of the run before; empty if no such command exists."""
    attach: tuple[str, ...] = ()
    """The words that attach a file; empty if the command attaches none."""
    is_ours: bool = False
    """Whether the command is that of `ao run`, because the tester named none."""
    known_failing: KnownFailing = field(default_factory=KnownFailing)
    jobs: int = 8


def run_runner_suite(plan: RunnerPlan, tell: Callable[[VectorResult], None] = lambda result: None) -> SuiteResult:
    """Play a plan and return the result. `tell` is called with the result of each vector as soon as it is judged."""
    run = SuiteRun(plan.known_failing)
    vectors = _play_all(plan, tell)
    requirements = [
        requirement_result(rule, vectors) for rule in requirements_by_id().values() if rule.level == OF_RUNNERS
    ]
    name = plan.command[0].rpartition("/")[2]
    return run.result(vectors, requirements, suite="runner", command=plan.command, name=name, level=OF_RUNNERS)


def _play_all(plan: RunnerPlan, tell: Callable[[VectorResult], None]) -> list[VectorResult]:
    def one(vector: RunnerVector) -> VectorResult:
        result = _play_one(vector, plan)
        tell(result)
        return result

    with ThreadPoolExecutor(plan.jobs, thread_name_prefix="conformance") as pool:
        by_length = sorted(plan.vectors, key=lambda vector: -vector.within_seconds)
        played = {vector.id: pool.submit(one, vector) for vector in by_length}
        try:
            return [played[vector.id].result() for vector in plan.vectors]
        except KeyboardInterrupt:
            pool.shutdown(cancel_futures=True)
            raise


def _play_one(vector: RunnerVector, plan: RunnerPlan) -> VectorResult:
    began = time.monotonic()
    if vector.resumes and not plan.resume:
        return vector.result(Verdict.NEVER_EXERCISED, "no command resumes a session; --resume names one")
    if vector.attachments and not plan.attach:
        return vector.result(Verdict.NEVER_EXERCISED, "no words attach a file to the prompt; --attach names them")
    if "input" in vector.given and not uses(plan.command, "profile"):
        return vector.result(Verdict.NEVER_EXERCISED, "the command has no {profile}, so that nobody answers requests")
    if reason := reason_against(plan.command, vector):
        return vector.result(Verdict.UNTESTABLE, reason)
    try:
        played = play(vector, attaching(plan.command, plan.attach, vector), plan.resume)
        findings = weigh(judge(played), OF_RUNNERS)
    except Exception:  # noqa: BLE001  # an error of the suite ends one vector only, and is reported as such
        return vector.result(Verdict.HARNESS_ERROR, traceback.format_exc(limit=-6))
    return vector.judged(
        findings,
        seconds=round(time.monotonic() - began, 2),
        transcript=played.transcript,
        reproduce=reproduce_line(vector, *(() if plan.is_ours else (plan.command, plan.resume, plan.attach))),
        judged=judged_in(played),
    )
