"""Does the suite find what is broken? A good executor is broken in one place at a time, and the suite is played at it.

Run: python -m tests.conformance.mutation [NAME…] [--own] [--jobs N]. It prints each mutant that was not caught, or was
caught for another reason, and the score as JSON.
"""

import argparse
import compileall
import json
import shutil
import sys
import tempfile
import tomllib
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from ao_conformance.suite import Plan, run_suite
from ao_conformance.vectors import load_process_vectors
from ao_conformance.verdict import Verdict

HERE = Path(__file__).parent
REFERENCE = HERE / "reference"
EXECUTABLE = "ao-reference-exec"
CAUGHT = frozenset({Verdict.FAIL, Verdict.UNTESTABLE, Verdict.WARN})


@dataclass(frozen=True, slots=True)
class Mutant:
    """One piece of source text, what it is replaced by, and the requirement that this breaks."""

    name: str
    breaks: str
    title: str
    file: str
    find: str
    replace: str


@dataclass(frozen=True, slots=True)
class Caught:
    """What the suite said about a mutant."""

    mutant: Mutant
    broken: frozenset[str]
    """The requirements that failed, or warned where they are a SHOULD."""
    vectors: tuple[str, ...]
    """The vectors that showed it."""
    harness_errors: tuple[str, ...]

    @property
    def exactly(self) -> bool:
        """Whether its own requirement failed and no other."""
        return self.broken == {self.mutant.breaks} and not self.harness_errors


def load_mutants() -> list[Mutant]:
    """Return every mutant of the reference executor."""
    return [Mutant(**fields) for fields in tomllib.loads((HERE / "mutants.toml").read_text(encoding="utf-8"))["mutant"]]


def break_reference(mutant: Mutant, folder: Path) -> Path:
    """Copy the reference executor with one piece replaced, and return the executable.

    Raises:
        ValueError: the piece is not there exactly once.
    """
    copy = folder / "reference"
    shutil.copytree(REFERENCE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    path = copy / mutant.file
    source = path.read_text(encoding="utf-8")
    if source.count(mutant.find) != 1:
        raise ValueError(
            f"{mutant.name}: its piece stands {source.count(mutant.find)} times in {mutant.file}, not once"
        )
    path.write_text(source.replace(mutant.find, mutant.replace), encoding="utf-8")
    compileall.compile_dir(copy, quiet=2)
    return copy / EXECUTABLE


def play_at(mutant: Mutant, *, own: bool, jobs: int) -> Caught:
    """Play the suite at a mutant; with `own` only the vectors of its requirement."""
    vectors = [vector for vector in load_process_vectors() if not own or mutant.breaks in vector.requirements]
    with tempfile.TemporaryDirectory(prefix="ao-mutant-") as scratch:
        executable = break_reference(mutant, Path(scratch))
        result = run_suite(Plan(command=(str(executable),), level="standard", vectors=vectors, jobs=jobs))
    return Caught(
        mutant,
        frozenset(rule.id for rule in result.requirements if rule.verdict in CAUGHT),
        tuple(sorted({vector.id for vector in result.vectors if vector.findings})),
        tuple(vector.reason for vector in result.vectors if vector.verdict is Verdict.HARNESS_ERROR),
    )


def _play_quickly(mutant: Mutant) -> Caught:
    return play_at(mutant, own=True, jobs=4)


def _play_all(mutant: Mutant) -> Caught:
    return play_at(mutant, own=False, jobs=6)


def main(arguments: Sequence[str]) -> int:
    """Play at all mutants, or those that are named, and print what came of it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--own", action="store_true", help="only the vectors of the requirement that is broken")
    parser.add_argument("--jobs", type=int, default=2)
    asked = parser.parse_args(arguments)
    mutants = [
        mutant for mutant in load_mutants() if not asked.names or {mutant.name, mutant.breaks} & set(asked.names)
    ]
    exact, vectors = 0, set[str]()
    with ProcessPoolExecutor(asked.jobs) as pool:
        for caught in pool.map(_play_quickly if asked.own else _play_all, mutants):
            exact += caught.exactly
            vectors |= set(caught.vectors)
            if not caught.exactly:
                found = ", ".join(sorted(caught.broken)) or "nothing"
                shown = " ".join((*caught.vectors, *caught.harness_errors))
                print(f"{caught.mutant.name}: breaks {caught.mutant.breaks}, caught as {found} by {shown}", flush=True)
    print(
        json.dumps(
            {
                "mutants": len(mutants),
                "caught_exactly": exact,
                "score": round(exact / len(mutants), 3),
                "vectors_that_caught_one": len(vectors),
            }
        )
    )
    return 0 if exact == len(mutants) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
