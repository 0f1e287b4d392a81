"""The values that the suite returns: findings, verdicts, and the results for reports."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum, StrEnum
from importlib.metadata import version as version_of
from typing import Any, Final

from ao_protocol.published import CURRENT_SCHEMAS


class Verdict(StrEnum):
    """The outcome of a check."""

    PASS = "pass"  # noqa: S105  # no password
    FAIL = "fail"
    WARN = "warn"
    """A SHOULD was not followed, or at core a requirement of standard was broken."""
    NOT_APPLICABLE = "not_applicable"
    """It belongs to a capability that the description does not declare, or to a level that was not requested."""
    NEVER_EXERCISED = "never_exercised"
    """It applies, and nothing made it happen; a claim that a level is kept names the number of these."""
    UNTESTABLE = "untestable"
    """It had to be checked and could not be; this counts as a failure."""
    HARNESS_ERROR = "harness_error"
    """The suite itself failed; this shows nothing about the executable."""


WORST_FIRST: Final = (
    Verdict.HARNESS_ERROR,
    Verdict.FAIL,
    Verdict.UNTESTABLE,
    Verdict.WARN,
    Verdict.PASS,
    Verdict.NEVER_EXERCISED,
    Verdict.NOT_APPLICABLE,
)


BROKEN: Final = frozenset({Verdict.FAIL, Verdict.UNTESTABLE, Verdict.HARNESS_ERROR})
"""The verdicts that count against the executable, or against the suite."""
UNSEEN: Final = frozenset({Verdict.NOT_APPLICABLE, Verdict.NEVER_EXERCISED})
"""The verdicts where nothing was observed."""


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """Return the most severe verdict, which decides for all; `NOT_APPLICABLE` for none."""
    return min(verdicts, key=WORST_FIRST.index, default=Verdict.NOT_APPLICABLE)


EXIT_INTERRUPTED: Final = 130
"""The exit code that shells report after SIGINT."""


class Reason(StrEnum):
    """The reasons on which more depends than a text. Each is the text of a vector or a requirement without a play."""

    ABOVE_LEVEL = "it belongs to the level standard"
    INTERRUPTED = "interrupted before it was over"
    """The tester interrupted the suite."""
    NO_DESCRIPTION = "describe gave no description, without which nothing else can be played"
    NO_MODEL = "the description names no model_endpoint that can be simulated"
    NO_RUN = "no run begins, as the vector start shows, without which nothing else can be played"
    HANGS = "the executor hung in the vectors that were played first, so the others were not played"
    UNSEEN = (
        "the capability is declared, and no vector could look at it: name a model_endpoint that can be simulated, "
        "or do not declare the capability"
    )


class Lateness(Enum):
    """How time is a part of a finding."""

    END = "the play waited for an end or an event, and it came late or not at all"
    EXIT = "the process exited late after its terminal event, or not at all"
    EVENT = "an event came long after its timestamp"
    KILLED = "something else was found in a process that the play had to end"


@dataclass(frozen=True, slots=True)
class Finding:
    """One requirement that was broken, or could not be tested."""

    requirement: str
    """The id of the requirement, such as `AOX-011`."""
    expected: str
    found: str
    verdict: Verdict = Verdict.FAIL
    """`FAIL`, `WARN` or `UNTESTABLE`."""
    line: int | None = None
    """The line of stdout that shows it, from 1."""
    lateness: Lateness | None = None


@dataclass(frozen=True, slots=True)
class TranscriptEntry:
    """One entry of a transcript."""

    seconds: float
    """Seconds since the play began."""
    channel: str
    """`start`, `stdin`, `stdout`, `stderr`, `signal`, `model`, `exit` or `note`."""
    text: str
    """The content, shortened if it is long; bytes that are not UTF-8 are escaped."""
    process: int = 0
    """0 for the judged process; 1 for a process that the vector starts before it."""


@dataclass(frozen=True, slots=True)
class VectorResult:
    """The result of one vector."""

    id: str
    title: str
    topic: str
    level: str
    """`core`, `standard` or `capability`."""
    capability: str | None
    requirements: tuple[str, ...]
    verdict: Verdict
    reason: str = ""
    """Why the vector does not apply or could not be tested, or how the suite failed."""
    findings: tuple[Finding, ...] = ()
    seconds: float = 0.0
    transcript: tuple[TranscriptEntry, ...] = ()
    reproduce: str = ""
    """A command line that plays this vector alone."""
    known_failing: bool = False
    hint: str = ""
    """The usual cause and the remedy; only if the vector's own requirement is broken."""
    judged: tuple[str, ...] = ()
    """Every requirement that this play could have shown as broken: its own and those of any run."""
    unreached: str = ""
    """The moment that never came and, by the vector, does not have to come; empty if none."""


@dataclass(frozen=True, slots=True)
class RequirementResult:
    """The result of one requirement over all vectors: this is a check."""

    id: str
    keyword: str
    """`MUST` or `SHOULD`."""
    level: str
    section: str
    text: str
    why: str
    verdict: Verdict
    findings: tuple[tuple[str, Finding], ...] = ()
    """Each finding with the id of the vector that showed it."""
    vectors: tuple[str, ...] = ()
    """The ids of the vectors that tested it."""
    reason: str = ""
    known_failing: bool = False


@dataclass(frozen=True, slots=True)
class SuiteResult:
    """The content of a report."""

    suite: str
    """`executor`, `runner` or `codec`."""
    command: tuple[str, ...]
    """The argv that was tested."""
    name: str
    """The name of the executor in its description, or of the command."""
    level: str
    """`core` or `standard`, or the name of a suite without levels."""
    started_at: str
    """The start, in RFC 3339 and UTC."""
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
    """The number of vectors that were not selected; if it is not 0, the verdict is about a selection."""
    reached: str | None = None
    """The highest level that is met, `core` or `standard`, empty for none; None if only one level was tested."""
    missing: tuple[RequirementResult, ...] = ()
    """The requirements that are missing to the next level, if all levels were tested."""

    @property
    def executed(self) -> int:
        """The number of vectors that were played."""
        return sum(1 for vector in self.vectors if vector.verdict not in UNSEEN)

    @property
    def is_interrupted(self) -> bool:
        """Whether the suite was interrupted, so that only failures are final."""
        return any(vector.reason is Reason.INTERRUPTED for vector in self.vectors)

    @property
    def verdict(self) -> Verdict:
        """The verdict on the whole. Known failures do not count; stale entries and unstable vectors do."""
        counting = self._counting()
        if not self.executed or (self.is_interrupted and Verdict.FAIL not in counting):
            return Verdict.HARNESS_ERROR
        if self.stale or self.unstable:
            return worst([Verdict.FAIL, *counting])
        found = worst(counting)
        return Verdict.PASS if found is Verdict.WARN and not any(map(self._warns, self.requirements)) else found

    @property
    def exit_code(self) -> int:
        """The exit code: 0 conforms, 1 does not conform, 3 nothing could be tested, 130 interrupted."""
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
        """Whether the level of this result is met."""
        return self.exit_code == 0

    @property
    def broken(self) -> tuple[RequirementResult, ...]:
        """The requirements that are broken or could not be tested, without known failures."""
        return tuple(rule for rule in self.requirements if rule.verdict in BROKEN and not rule.known_failing)

    def count(self, verdict: Verdict) -> int:
        """Return the number of requirements with a verdict."""
        return sum(1 for requirement in self.requirements if requirement.verdict is verdict)

    def _warns(self, rule: RequirementResult) -> bool:
        """Return whether a requirement has a warning that concerns the tested level."""
        is_beyond = self.level == "core" and rule.level == "standard"
        return rule.verdict is Verdict.WARN and not is_beyond and not rule.known_failing

    def _counting(self) -> list[Verdict]:
        vectors = [vector.verdict for vector in self.vectors if not vector.known_failing]
        return vectors + [found.verdict for found in self.requirements if not found.known_failing]
