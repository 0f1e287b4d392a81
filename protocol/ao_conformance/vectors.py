"""The vectors of every kind, and the requirements that they test. The schema `vector` defines their form."""

from collections.abc import Container, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Final, Literal, Self

from ao_conformance.verdict import Finding, VectorResult, Verdict, worst
from ao_protocol.published import Requirement, load_requirements, load_vector_files

Document = Mapping[str, Any]
FIRST_PLAYED: Final = "start"
"""The simplest vector. If it shows that no run begins, no other vector can show anything."""


@cache
def requirements_by_id() -> Mapping[str, Requirement]:
    """Return every requirement of the protocol by its id, in the order of the specification."""
    return {requirement.id: requirement for requirement in load_requirements()}


@dataclass(frozen=True, slots=True)
class Vector:
    """A test case of a suite."""

    id: str
    title: str
    topic: str
    requirements: tuple[str, ...]
    level: str
    source: Document
    """The whole vector as in its file."""

    @classmethod
    def load(cls, kinds: Container[str], level: str = "") -> list[Self]:
        """Return the vectors of some kinds, in the order of their files. `level` applies to vectors that name none."""
        found = []
        for _, document in load_vector_files():
            for source in document["vectors"]:
                if source["kind"] in kinds:
                    topic, rules = document["topic"], tuple(source["requirements"])
                    found.append(cls(source["id"], source["title"], topic, rules, source.get("level", level), source))
        return found

    @property
    def names(self) -> Set[str]:
        """The names that select the vector: its id and its requirements."""
        return {self.id, *self.requirements}

    @property
    def expectations(self) -> Sequence[Document]:
        """The expectation, and then the alternatives that are allowed."""
        return [self.source["expect"], *self.source.get("other_allowed", [])]

    @property
    def within_seconds(self) -> float:
        """The limit for the duration of the play."""
        return max(float(expected["within_seconds"]) for expected in self.expectations)

    @property
    def blames(self) -> Mapping[str, str]:
        """The requirement that is broken if a part of `expect`, or a rule for any run, is not met."""
        found: Mapping[str, str] = self.source.get("blame", {})
        return found

    def blamed(self, part: str) -> str:
        """Return the requirement that is broken if a part of `expect` is not met."""
        return self.blames.get(part, self.requirements[0])

    def hurried(self, most_seconds: float) -> Self:
        """Return the same vector with a duration of at most `most_seconds`."""
        expected, *others = (
            {**document, "within_seconds": min(most_seconds, document["within_seconds"])}
            for document in self.expectations
        )
        return replace(self, source={**self.source, "expect": expected, "other_allowed": others})

    def result(self, verdict: Verdict, reason: str = "") -> VectorResult:
        """Return a result without observations."""
        capability = self.source.get("capability")
        return VectorResult(self.id, self.title, self.topic, self.level, capability, self.requirements, verdict, reason)

    def judged(self, findings: Sequence[Finding], **observed: Any) -> VectorResult:  # noqa: ANN401  # fields of a result
        """Return the result of a play or an answer with these findings; none if it shows nothing wrong."""
        verdict = worst([Verdict.PASS, *(finding.verdict for finding in findings)])
        return replace(self.result(verdict), findings=tuple(findings), **observed)


@dataclass(frozen=True, slots=True)
class Action:
    """An action of the player, and its moment."""

    at: str
    do: str
    line: Document | None = None
    text: str = ""


@dataclass(frozen=True, slots=True)
class Prior:
    """A process that the player starts before the judged one."""

    invocation: Document
    until: str
    ended_by: Literal["SIGTERM", "SIGKILL"] | None = None
    line: Document | None = None
    """A control line that ends the process."""
    own_project_dir: bool = False
    tells: Sequence[str] = ()
    """Types of events that the process has to write; without them the vector cannot go on."""


class ProcessVector(Vector):
    """A vector for an executable: its input, and the required behaviour."""

    __slots__ = ()

    @property
    def actions(self) -> Sequence[Action]:
        """The actions of the player, in order."""
        return [Action(**action) for action in self.source.get("actions", [])]

    @property
    def priors(self) -> Sequence[Prior]:
        """The processes that are started before the judged one."""
        return [Prior(**prior) for prior in self.source.get("prior", [])]

    @property
    def may_not_come(self) -> bool:
        """Whether the moment of an action need not come: the vector is then never exercised."""
        return bool(self.source.get("unreached") == "never_exercised")

    @property
    def capability(self) -> str | None:
        """The capability that an executable has to declare for this vector; None if it needs none."""
        return self.source.get("capability")

    @property
    def hint(self) -> str:
        """The usual cause if the vector's own requirements are broken, and the remedy."""
        return str(self.source.get("hint", ""))

    @property
    def builds_on(self) -> Sequence[str]:
        """Requirements of other vectors without which this one cannot be met, the likeliest cause first."""
        found: Sequence[str] = self.source.get("builds_on", ())
        return found

    @property
    def model_script(self) -> dict[str, Any] | None:
        """The script of the simulated model."""
        return self.source.get("model_script")

    @property
    def works_for_seconds(self) -> float:
        """The minimum duration of the work."""
        return float(self.source.get("works_for_seconds", 0))

    @property
    def stdin(self) -> Literal["pipe", "closed", "terminal", "file"]:
        """The kind of stdin."""
        found: Literal["pipe", "closed", "terminal", "file"] = self.source.get("stdin", "pipe")
        return found

    def stands_for(self, requirement: str) -> str:
        """Return the requirement under which this vector reports a rule for any run; the rule itself by default."""
        return self.blames.get(requirement, requirement)


def load_process_vectors() -> list[ProcessVector]:
    """Return the vectors for executables."""
    return ProcessVector.load({"process"})
