"""What the suite says: findings, verdicts, and the results that reports are made of. Only values."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from importlib.metadata import version as version_of
from typing import Any, Final

from ao_protocol.published import CURRENT_SCHEMAS


class Verdict(StrEnum):
    """What became of a check."""

    PASS = "pass"  # noqa: S105  # no password
    FAIL = "fail"
    WARN = "warn"
    """A SHOULD was not followed."""
    NOT_APPLICABLE = "not_applicable"
    """It belongs to a capability that the description does not declare, or to a level that was not asked for."""
    UNTESTABLE = "untestable"
    """It should have been checked and could not be; this counts as a failure."""
    HARNESS_ERROR = "harness_error"
    """The suite itself failed; this says nothing about the executable."""


WORST_FIRST: Final = (
    Verdict.HARNESS_ERROR,
    Verdict.FAIL,
    Verdict.UNTESTABLE,
    Verdict.WARN,
    Verdict.PASS,
    Verdict.NOT_APPLICABLE,
)


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """Return the one that decides for all of them; `NOT_APPLICABLE` for none."""
    return min(verdicts, key=WORST_FIRST.index, default=Verdict.NOT_APPLICABLE)


NEVER_CAME: Final = "the moment"
"""Begins the reason of a play that shows nothing, since the executor was done before."""
INTERRUPTED: Final = "interrupted before it was over"
"""Why a vector was not played, or not to its end: whoever asked for the suite ended it."""
EXIT_INTERRUPTED: Final = 130
"""As shells have it for what SIGINT ends."""
NO_DESCRIPTION: Final = "describe gave no description, without which nothing else can be played"
NO_RUN: Final = "no run begins, as the vector start shows, without which nothing else can be played"
"""Why most vectors are left out of a result: there was nothing to go on from."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One requirement that was not kept, or could not be looked at."""

    requirement: str
    """Its id, such as `AOX-011`."""
    expected: str
    found: str
    verdict: Verdict = Verdict.FAIL
    """`FAIL`, `WARN` or `UNTESTABLE`."""
    line: int | None = None
    """The line of stdout that shows it, from 1."""


@dataclass(frozen=True, slots=True)
class TranscriptEntry:
    """Something that went in or came out."""

    seconds: float
    """Since the process was started."""
    channel: str
    """`start`, `stdin`, `stdout`, `stderr`, `signal`, `model`, `exit` or `note`."""
    text: str
    """As text, cut where it is long; what is no UTF-8 is shown as escapes."""
    process: int = 0
    """0 for the one that is judged; 1 for the one that was started before it, where a vector has one."""


@dataclass(frozen=True, slots=True)
class VectorResult:
    """What one vector showed."""

    id: str
    title: str
    topic: str
    level: str
    """`core`, `standard` or `capability`."""
    capability: str | None
    requirements: tuple[str, ...]
    verdict: Verdict
    reason: str = ""
    """Why it does not apply, could not be tested, or how the suite failed."""
    findings: tuple[Finding, ...] = ()
    seconds: float = 0.0
    transcript: tuple[TranscriptEntry, ...] = ()
    reproduce: str = ""
    """A command line that plays this vector alone."""
    known_failing: bool = False
    hint: str = ""
    """What usually went wrong, and what to do; only where the vector's own requirements are not kept."""
    judged: tuple[str, ...] = ()
    """Every requirement that this play could have broken visibly: its own and those that hold for any run."""


@dataclass(frozen=True, slots=True)
class RequirementResult:
    """What all vectors together showed of one requirement: this is a check."""

    id: str
    keyword: str
    """`MUST` or `SHOULD`."""
    level: str
    section: str
    text: str
    why: str
    verdict: Verdict
    findings: tuple[tuple[str, Finding], ...] = ()
    """Each with the id of the vector that showed it."""
    vectors: tuple[str, ...] = ()
    """The vectors in which it was looked at, by id."""
    reason: str = ""
    known_failing: bool = False


@dataclass(frozen=True, slots=True)
class SuiteResult:
    """Everything that a report tells."""

    suite: str
    """`executor`, `runner` or `codec`."""
    command: tuple[str, ...]
    """The argv that was tested."""
    name: str
    """Of the executor as its description says, or of the command."""
    level: str
    """`core` or `standard`, or the suite where it has no levels."""
    started_at: str
    """RFC 3339 in UTC."""
    seconds: float
    version: str = ""
    protocol_version: str = CURRENT_SCHEMAS
    suite_version: str = field(default_factory=lambda: version_of("ao-executor-protocol"))
    seed: int = 0
    repeats: int = 1
    description: Mapping[str, Any] = field(default_factory=dict)
    vectors: tuple[VectorResult, ...] = ()
    requirements: tuple[RequirementResult, ...] = ()
    stale: tuple[str, ...] = ()
    """Entries of the list of known failures that did not fail."""
    unstable: tuple[str, ...] = ()
    """Vectors whose verdict was not the same in every repeat."""
    left_out: int = 0
    """How many vectors the tester did not ask for: where there are some, the verdict is about a selection."""
    reached: str | None = None
    """The highest level that is kept, `core` or `standard`, empty for none; None where only one level was tested."""
    missing: tuple[RequirementResult, ...] = ()
    """What keeps it from the next level, where all levels were tested."""

    @property
    def executed(self) -> int:
        """How many vectors were played."""
        return sum(1 for vector in self.vectors if vector.verdict is not Verdict.NOT_APPLICABLE)

    @property
    def is_interrupted(self) -> bool:
        """Whether the suite was ended before it was over, so that only what failed is decided."""
        return any(vector.reason == INTERRUPTED for vector in self.vectors)

    @property
    def verdict(self) -> Verdict:
        """The verdict of the whole: known failures do not count, stale entries and unstable vectors do."""
        counting = self._counting()
        if not self.executed or (self.is_interrupted and Verdict.FAIL not in counting):
            return Verdict.HARNESS_ERROR
        if self.stale or self.unstable:
            return worst([Verdict.FAIL, *counting])
        found = worst(counting)
        return Verdict.PASS if found is Verdict.WARN and not any(map(self._warns, self.requirements)) else found

    @property
    def exit_code(self) -> int:
        """0 kept, 1 not kept, 3 nothing could be said, 130 interrupted."""
        if self.is_interrupted:
            return EXIT_INTERRUPTED
        match self.verdict:
            case Verdict.FAIL | Verdict.UNTESTABLE:
                return 1
            case Verdict.HARNESS_ERROR:
                return 3
            case _:
                return 0

    @property
    def conforms(self) -> bool:
        """Whether the level that it is a result of is kept."""
        return self.exit_code == 0

    @property
    def broken(self) -> tuple[RequirementResult, ...]:
        """The requirements that are not kept, or could not be tested, and are not known to fail."""
        failing = {Verdict.FAIL, Verdict.UNTESTABLE, Verdict.HARNESS_ERROR}
        return tuple(rule for rule in self.requirements if rule.verdict in failing and not rule.known_failing)

    def count(self, verdict: Verdict) -> int:
        """How many requirements have this verdict."""
        return sum(1 for requirement in self.requirements if requirement.verdict is verdict)

    def _warns(self, rule: RequirementResult) -> bool:
        """Tell whether a warning is one about the level that was tested."""
        is_beyond = self.level == "core" and rule.level == "standard"
        return rule.verdict is Verdict.WARN and not is_beyond and not rule.known_failing

    def _counting(self) -> list[Verdict]:
        vectors = [vector.verdict for vector in self.vectors if not vector.known_failing]
        return vectors + [found.verdict for found in self.requirements if not found.known_failing]
