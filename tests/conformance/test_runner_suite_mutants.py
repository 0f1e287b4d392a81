"""The suite for runners catches what it is there for: one mutant of the reference runner for each kind of fault."""

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ao_conformance.runner_suite.running import RunnerPlan, run_runner_suite
from ao_conformance.runner_suite.stage import load_runner_vectors
from ao_conformance.verdict import SuiteResult, Verdict
from tests.conformance.runners.mutants import MUTANTS

ROOT = Path(__file__).parents[2]
ARGUMENTS = (
    "{executor}",
    "{blueprint}",
    "{prompt}",
    "{project_dir}",
    "{timeout_seconds}",
    "{idle_seconds}",
    "{config}",
    "{profile}",
)
REFERENCE = "reference"

CAUGHT = {
    "StartsThroughAShell": ("runner-path-for-a-shell", {"AOX-230"}),
    "SharesItsGroup": ("runner-own-group", {"AOX-230"}),
    "PassesItsEnvironment": ("runner-environment", {"AOX-231"}),
    "ForgetsTheSession": ("runner-invocation", {"AOX-232"}),
    "LeavesStderrUnread": ("runner-flood-of-stderr", {"AOX-233"}),
    "BelievesStderr": ("runner-stderr-sounds-bad", {"AOX-234"}),
    "WritesEventsAnew": ("runner-verbatim", {"AOX-235"}),
    "KeepsEveryLine": ("runner-endless-line", {"AOX-233"}),
    "SendsATurnTooEarly": ("runner-multi-turn", {"AOX-236"}),
    "PassesOnEveryTerminal": ("runner-two-terminals", {"AOX-240"}),
    "BelievesTheExitCode": ("runner-result-and-exit-77", {"AOX-241"}),
    "KeepsQuietAboutNoise": ("runner-noise", {"AOX-242"}),
    "CallsEverythingACrash": ("runner-exits-silently", {"AOX-243"}),
    "PromisesNoSideEffects": ("runner-exits-silently", {"AOX-244"}),
    "TriesAgain": ("runner-not-tried-again", {"AOX-245"}),
    "KillsAtOnce": ("runner-cancel-eof-is-enough", {"AOX-246"}),
    "AsksEverybody": ("runner-cancel-eof-is-enough", {"AOX-246"}),
    "LeavesTheGroupAlive": ("runner-leaves-a-child", {"AOX-247"}),
    "SendsItsOwnVersion": ("runner-invocation", {"AOX-250"}),
    "KnowsOnlyPlainSecrets": ("runner-secret-in-other-forms", {"AOX-263"}),
    "WaitsForEver": ("runner-time-is-up", {"AOX-241"}),
    "KeepsAllOfStderr": ("runner-endless-stderr", {"AOX-233"}),
    "TakesTheEndOfStderrForTheEnd": ("runner-closes-stderr", {"AOX-233"}),
    "HasALimitOfItsOwn": ("runner-line-of-70000-bytes", {"AOX-235"}),
    "IsOneByteShort": ("runner-longest-lines", {"AOX-235"}),
    "ReplacesWhatIsNoUtf8": ("runner-not-utf8", {"AOX-242"}),
    "EndsLinesAtEveryLineBreak": ("runner-only-lf-ends-a-line", {"AOX-235"}),
    "EndsLinesAtCr": ("runner-progress-bar", {"AOX-242"}),
    "KnowsNoByteOrderMark": ("runner-byte-order-mark", {"AOX-235"}),
    "WritesTextAnew": ("runner-rare-json", {"AOX-240"}),
    "WaitsBeforeItReads": ("runner-flood-of-events", {"AOX-233"}),
    "LeavesWithTheProcess": ("runner-flood-of-events", {"AOX-233"}),
    "ReadsHalfADescription": ("runner-describe-long", {"AOX-233"}),
    "ReadsStderrBehindStdout": ("runner-flood-of-stderr", {"AOX-233"}),
    "ReadsToTheTerminalEvent": ("runner-floods-after-the-end", {"AOX-233"}),
    "WaitsForWhatItHas": ("runner-lines-in-one-write", {"AOX-233"}),
    "SignalsTheLeaderAlone": ("runner-cancel-reaches-the-group", {"AOX-246"}),
    "AsksBehindAClosedDoor": ("runner-cancel-is-asked", {"AOX-246"}),
    "DiesOfABrokenPipe": ("runner-cancel-nobody-listens", {"AOX-240", "AOX-244", "AOX-246", "AOX-247"}),
    "SendsNoLineEnd": ("runner-invocation", {"AOX-232", "AOX-237"}),
    "SendsTextForNumbers": ("runner-invocation", {"AOX-237"}),
    "KeepsWhatItHas": ("runner-environment-usual", {"AOX-231"}),
    "TakesOutEmptySecrets": ("runner-secret-without-a-value", {"AOX-240", "AOX-242"}),
    "CountsTimeFromTheLastLine": ("runner-time-is-up-while-it-talks", {"AOX-243"}),
    "CountsTheStartFromTheLastLine": ("runner-noise-is-no-start", {"AOX-243"}),
    "TakesNoiseForProgress": ("runner-noise-is-no-progress", {"AOX-243"}),
    "IsCancelledBehindTheEnd": ("runner-cancel-behind-the-result", {"AOX-240"}),
    "ClosesOneTool": ("runner-open-tools", {"AOX-242"}),
    "LetsAResultBeFirst": ("runner-terminal-first", {"AOX-242"}),
    "ReadsNamesIntoNothing": ("runner-names-are-null", {"AOX-242"}),
    "WantsNamesOnARefusal": ("runner-refusal-without-names", {"AOX-241"}),
    "PassesOnNoNames": ("runner-refusal-without-names", {"AOX-232"}),
    "TakesNullForAFault": ("runner-rare-events", {"AOX-235"}),
    "WorksAnywhere": ("runner-own-group", {"AOX-228"}),
    "SendsNulls": ("runner-invocation", {"AOX-237"}),
    "SendsAByteOrderMark": ("runner-invocation", {"AOX-237"}),
    "SendsTwoLines": ("runner-invocation", {"AOX-232", "AOX-237"}),
    "SendsWhatIsTooLong": ("runner-refuses-what-is-too-long", {"AOX-237"}),
    "SendsItsFavouriteVersion": ("runner-version-that-is-listed", {"AOX-250"}),
    "ServesEveryAgent": ("runner-refuses-an-agent-type", {"AOX-238"}),
    "TakesAnyConfiguration": ("runner-refuses-a-configuration", {"AOX-238"}),
    "TakesAnyStrategy": ("runner-refuses-an-unoffered-strategy", {"AOX-238"}),
    "TakesAnyCommonSetting": ("runner-refuses-an-undeclared-setting", {"AOX-238"}),
    "TakesAnyFile": ("runner-refuses-a-media-type", {"AOX-238"}),
    "LooksForNoFile": ("runner-refuses-a-missing-file", {"AOX-239"}),
    "LeavesTheFilesOut": ("runner-attaches-files", {"AOX-237"}),
    "SortsTheFiles": ("runner-attaches-files", {"AOX-237"}),
    "RequiresNothing": ("runner-attaches-files", {"AOX-237"}),
    "ResumesEverybody": ("runner-cannot-resume", {"AOX-238", "AOX-251"}),
    "ChecksBehindTheStart": ("runner-refuses-a-parameters-schema", {"AOX-239"}),
    "TakesAnyParameters": ("runner-refuses-an-empty-prompt", {"AOX-239"}),
    "TakesAnyContract": ("runner-refuses-a-schema-elsewhere", {"AOX-239"}),
    "LooksForNoFolder": ("runner-refuses-a-missing-directory", {"AOX-239"}),
    "NamesOneProblem": ("runner-refuses-parameters", {"AOX-239"}),
    "KeepsTheSchemaToItself": ("runner-refuses-parameters", {"AOX-239"}),
    "WritesNoPrompt": ("runner-prompt-unchanged", {"AOX-253"}),
    "TrimsThePrompt": ("runner-prompt-unchanged", {"AOX-253"}),
    "WritesThePromptForTheBlock": ("runner-prompt-is-the-block", {"AOX-253"}),
    "PromptsPrograms": ("runner-prompt-of-a-program", {"AOX-253"}),
    "DemandsNothing": ("runner-prompt-with-the-demand", {"AOX-253"}),
    "WantsWholeEvents": ("runner-completes-events", {"AOX-254"}),
    "PassesOnHalfEvents": ("runner-completes-a-failure", {"AOX-254"}),
    "PromisesWhatItDoesNotKnow": ("runner-completes-an-unknown-failure", {"AOX-254"}),
    "ForgetsTheTools": ("runner-completes-events", {"AOX-254"}),
    "TakesNullForNothing": ("runner-cannot-complete", {"AOX-242"}),
    "KnowsItsErrorTypes": ("runner-unknown-error-type", {"AOX-101"}),
    "ListensToStderr": ("runner-result-on-stderr", {"AOX-199"}),
    "CallsALongEventNoise": ("runner-event-too-long", {"AOX-243"}),
    "PromisesAnswersOfNobody": ("runner-input-is-not-offered", {"AOX-264"}),
    "PromisesAnswersToEverybody": ("runner-input-is-not-declared", {"AOX-264"}),
    "AnswersWhatIsResolved": ("runner-input-is-resolved-already", {"AOX-265"}),
    "TakesAPersonForSilence": ("runner-input-is-no-silence", {"AOX-266"}),
    "TakesAbsenceForADenial": ("runner-input-expires", {"AOX-267"}),
    "ParksNobody": ("runner-input-expires-and-parks", {"AOX-267"}),
    "LeavesRequestsOpen": ("runner-input-is-left-open", {"AOX-242", "AOX-268"}),
    "TakesWhatNobodyAsked": ("runner-input-is-not-paired", {"AOX-242"}),
}
"""For each mutant the vector that catches it, and the requirements that are then found to be broken."""
AT_ONCE = {"WritesEventsAnew"}
"""It shows that the suite works at all; the others are slow, and are played side by side: most of them wait."""
SIDE_BY_SIDE = 6


def play_at(runner: str, *names: str) -> SuiteResult:
    module = "reference" if runner == REFERENCE else "mutants"
    argv = ("env", f"PYTHONPATH={ROOT}", sys.executable, "-m", f"tests.conformance.runners.{module}")
    mutant = () if runner == REFERENCE else (runner,)
    vectors = [vector for vector in load_runner_vectors() if vector.id in names]
    return run_runner_suite(RunnerPlan((*argv, *mutant, *ARGUMENTS), vectors, attach=("{file}:{media_type}",)))


def test_every_mutant_is_caught_by_a_vector() -> None:
    assert CAUGHT.keys() == MUTANTS.keys()


@pytest.mark.parametrize("mutant", sorted(AT_ONCE))
def test_a_mutant_breaks_what_it_breaks_and_nothing_else(mutant: str) -> None:
    vector, broken = CAUGHT[mutant]

    result = play_at(mutant, vector)

    found = {finding.requirement for played in result.vectors for finding in played.findings}
    assert found == broken, result.vectors[0].findings
    assert result.exit_code == 1
    assert vector in result.vectors[0].reproduce
    assert {rule.id for rule in result.requirements if rule.verdict is Verdict.FAIL} == broken


@pytest.mark.slow  # mutation, of mutants that wait
@pytest.mark.timeout(300)
def test_each_slow_mutant_breaks_what_it_breaks_and_nothing_else() -> None:
    slow = sorted(CAUGHT.keys() - AT_ONCE)

    with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
        results = dict(zip(slow, pool.map(lambda name: play_at(name, CAUGHT[name][0]), slow), strict=True))

    assert {
        name: {rule.id for rule in result.requirements if rule.verdict is Verdict.FAIL}
        for name, result in results.items()
    } == {name: CAUGHT[name][1] for name in slow}
