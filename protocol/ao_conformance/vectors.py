"""The vectors of kind `process`, typed, and the requirements that they test. Their form is the schema `vector`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, Literal

from ao_protocol.published import Requirement, load_requirements, load_vector_files


@cache
def requirements_by_id() -> Mapping[str, Requirement]:
    """Return every requirement of the protocol by its id, in the order of the specification."""
    return {requirement.id: requirement for requirement in load_requirements()}


Document = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Action:
    """Something that the player does, and when."""

    at: str
    do: str
    line: Document | None = None
    text: str = ""


@dataclass(frozen=True, slots=True)
class Prior:
    """A process that is started before."""

    invocation: Document
    until: str
    ended_by: Literal["SIGTERM", "SIGKILL"] | None
    own_project_dir: bool
    tells: tuple[str, ...]
    """Types of events that it has to tell, or the vector has nothing to go on from."""


@dataclass(frozen=True, slots=True)
class ProcessVector:
    """What an executable is given, and what it must do."""

    id: str
    title: str
    topic: str
    requirements: tuple[str, ...]
    level: str
    source: Document
    """The whole vector as it stands in its file."""
    actions: tuple[Action, ...]
    priors: tuple[Prior, ...]

    @property
    def capability(self) -> str | None:
        """Where it is played."""
        return self.source.get("capability")

    @property
    def hint(self) -> str:
        """What usually went wrong where its own requirements are not kept, and what to do."""
        return str(self.source.get("hint", ""))

    @property
    def builds_on(self) -> Sequence[str]:
        """Requirements of other vectors without which this one cannot be met, the likeliest cause first."""
        found: Sequence[str] = self.source.get("builds_on", ())
        return found

    @property
    def expectations(self) -> Sequence[Document]:
        """What must be, and then what may be in its place."""
        return [self.source["expect"], *self.source.get("other_allowed", [])]

    @property
    def within_seconds(self) -> float:
        """How long the play may take."""
        return max(float(expected["within_seconds"]) for expected in self.expectations)

    @property
    def model_script(self) -> dict[str, Any] | None:
        """What the simulated model answers."""
        return self.source.get("model_script")

    @property
    def works_for_seconds(self) -> float:
        """How long the work lasts at least."""
        return float(self.source.get("works_for_seconds", 0))

    @property
    def stdin(self) -> Literal["pipe", "closed", "terminal", "file"]:
        """What stdin is."""
        found: Literal["pipe", "closed", "terminal", "file"] = self.source.get("stdin", "pipe")
        return found

    @property
    def blames(self) -> Mapping[str, str]:
        """Which requirement is broken where a part of `expect`, or a rule for any run, is not met."""
        found: Mapping[str, str] = self.source.get("blame", {})
        return found

    def blamed(self, part: str) -> str:
        """Return the requirement that is broken where a part of `expect` is not met."""
        return self.blames.get(part, self.requirements[0])

    def stands_for(self, requirement: str) -> str:
        """Return the requirement that a rule for any run stands for in this vector: itself, where nothing is said."""
        return self.blames.get(requirement, requirement)


FIRST_PLAYED: Final = "start"
"""The plainest vector. Where it shows that no run begins at all, no other has anything to look at."""


def load_process_vectors() -> list[ProcessVector]:
    """Return all of them, in the order of their files."""
    return [
        _typed(vector, document["topic"])
        for _, document in load_vector_files()
        for vector in document["vectors"]
        if vector["kind"] == "process"
    ]


def _typed(vector: dict[str, Any], topic: str) -> ProcessVector:
    return ProcessVector(
        id=vector["id"],
        title=vector["title"],
        topic=topic,
        requirements=tuple(vector["requirements"]),
        level=vector["level"],
        source=vector,
        actions=tuple(
            Action(action["at"], action["do"], action.get("line"), action.get("text", ""))
            for action in vector.get("actions", [])
        ),
        priors=tuple(
            Prior(
                prior["invocation"],
                prior["until"],
                prior.get("ended_by"),
                bool(prior.get("own_project_dir")),
                tuple(prior.get("tells", ())),
            )
            for prior in vector.get("prior", [])
        ),
    )
