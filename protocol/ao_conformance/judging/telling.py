"""Each mistake is told once: what only follows from another finding is left out, and something always remains."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ao_conformance.judging.expectations import Difference
from ao_conformance.verdict import Finding, Verdict

OF_ANOTHER_ENDING: Final = frozenset({"AOX-043", "AOX-075", "AOX-082"})
"""What only follows where a run ended otherwise than the vector expects: a line that is refused has no names."""
REPEATED: Final[Mapping[str, frozenset[str]]] = {
    "AOX-043": frozenset({"first"}),
    "AOX-058": frozenset({"end"}),
    "AOX-071": frozenset({"first"}),
    "AOX-075": frozenset({"terminal"}),
    "AOX-076": frozenset({"terminal"}),
    "AOX-084": frozenset({"ending", "first", "holds", "terminal"}),
    "AOX-090": frozenset({"events", "first"}),
    "AOX-092": frozenset({"events"}),
    "AOX-094": frozenset({"events", "runs"}),
    "AOX-102": frozenset({"terminal"}),
    "AOX-105": frozenset({"ending", "terminal", "exit"}),
    "AOX-107": frozenset({"terminal"}),
    "AOX-108": frozenset({"exit"}),
    "AOX-110": frozenset({"exit"}),
    "AOX-193": frozenset({"end"}),
}
"""Rules for any run, and the parts of an expectation that only repeat that they are broken."""
SHOWN_OF_EACH: Final = 3


@dataclass(frozen=True, slots=True)
class Seen:
    """Everything that a play shows to be wrong."""

    remarks: tuple[Finding, ...]
    """What the player saw while it looked at the process, and how the model was asked."""
    general: tuple[Finding, ...]
    """By the rules for any run."""
    differences: tuple[Difference, ...]
    """From the vector's expectations."""
    about: frozenset[str]
    """The requirements that the vector is about."""


def tell_once(seen: Seen) -> list[Finding]:
    """Return the findings without those that follow from others; it is empty only where nothing is wrong.

    Where a run ended in another way than expected, its names follow from that. Where a rule is broken that the vector
    is about, or the model was asked wrongly, the vector's expectations only repeat it; where another rule for any run
    is broken, some parts of them do (`REPEATED`). A moment that never came and did not have to come says nothing
    beside another finding.
    """
    ends_otherwise = any(one.is_another_ending for one in seen.differences)
    general = [one for one in seen.general if not ends_otherwise or one.requirement not in OF_ANOTHER_ENDING]
    told = [*seen.remarks, *general]
    failed = {finding.requirement for finding in told if finding.verdict is Verdict.FAIL}
    differences = list(seen.differences)
    if seen.about & failed:
        differences = []
    repeated = {part for requirement in failed for part in REPEATED.get(requirement, ())}
    differences = [one for one in differences if one.part not in repeated]
    if failed:
        differences = [one for one in differences if not one.may_be]
    return first_of_each([*told, *(one.finding for one in differences)])


def first_of_each(findings: Sequence[Finding]) -> list[Finding]:
    """Return the first three of each requirement, in order."""
    kept: list[Finding] = []
    for finding in findings:
        if finding not in kept and sum(other.requirement == finding.requirement for other in kept) < SHOWN_OF_EACH:
            kept.append(finding)
    return kept
