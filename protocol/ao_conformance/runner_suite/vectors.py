"""The vectors of kind `runner`, typed; their form is the schema `vector`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ao_protocol.published import load_vector_files

Document = Mapping[str, Any]

DESCRIPTION: Final[Document] = {
    "schema_versions": ["3.0"],
    "executor": {"name": "hostile", "version": "1"},
    "agent_types": ["autonomous"],
    "capabilities": {},
}
"""What a hostile executor says of itself, where its vector says nothing else."""
BLUEPRINT: Final[Document] = {"name": "conformance", "system_prompt": "You are asked by a conformance suite."}
PROMPT: Final = "Play."


@dataclass(frozen=True, slots=True)
class RunnerVector:
    """A hostile executor, what the runner is given, and what it must report."""

    id: str
    title: str
    topic: str
    requirements: tuple[str, ...]
    source: Document
    """The whole vector as it stands in its file."""

    @property
    def executor(self) -> Document:
        """What stands for the executor."""
        found: Document = self.source["executor"]
        return found

    @property
    def given(self) -> Document:
        """What the runner is given besides."""
        found: Document = self.source.get("given", {})
        return found

    @property
    def resumes(self) -> bool:
        """Whether the session of the run is resumed; that run is judged."""
        return bool(self.given.get("resume", False))

    @property
    def description(self) -> Document:
        """What the executor says of itself, unless it plays `describe`."""
        return {**DESCRIPTION, **self.executor.get("description", {})}

    @property
    def expectations(self) -> Sequence[Document]:
        """What must be, and then what may be in its place."""
        return [self.source["expect"], *self.source.get("other_allowed", [])]

    @property
    def within_seconds(self) -> float:
        """How long the play may take."""
        return max(float(expected["within_seconds"]) for expected in self.expectations)

    @property
    def takes_long(self) -> bool:
        """Whether it is played only on request."""
        return bool(self.source.get("long", False))

    @property
    def may_start(self) -> int:
        """How often the executor may be started for the run."""
        return max(int(expected.get("starts", 1)) for expected in self.expectations)

    def blamed(self, part: str) -> str:
        """Return the requirement that is broken where a part of `expect` is not met."""
        named: str = self.source.get("blame", {}).get(part, self.requirements[0])
        return named


def load_runner_vectors() -> list[RunnerVector]:
    """Return all of them, in the order of their files."""
    return [
        RunnerVector(vector["id"], vector["title"], document["topic"], tuple(vector["requirements"]), vector)
        for _, document in load_vector_files()
        for vector in document["vectors"]
        if vector["kind"] == "runner"
    ]
