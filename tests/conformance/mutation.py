"""Does the suite find what is broken? A good executor is broken in one place at a time, and the suite is played at it.

Run: python -m tests.conformance.mutation [NAME…] [--jobs N] [--sample N] [--seed N]. It prints each mutant that was not
caught, or was caught for another reason, and the score as JSON; it exits with 1 below a score of 1. A name may be that
of a mutant or the requirement that it breaks. A mutant plays the vectors of its requirement, some of those that these
build on, and some of the rest, others with each seed, which is the day where none is given. A sample is of every N-th
mutant, of other ones with each seed, and fails only where one was not caught at all: a change that did not touch those
mutants is not to be held up by how they are told.
"""

import argparse
import compileall
import json
import random
import shutil
import sys
import tempfile
import time
import tomllib
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any, Final

from ao_conformance.suite import Plan, run_suite
from ao_conformance.vectors import ProcessVector, load_process_vectors
from ao_conformance.verdict import Verdict

HERE: Final = Path(__file__).parent
REFERENCE: Final = HERE / "reference"
TABLES: Final = HERE / "mutants"
"""What is broken in the reference executor, as little source text at a time as can be, and the requirement that this
breaks; a file per topic."""
EXECUTABLE: Final = "ao-reference-exec"
CORE_REFERENCE: Final = HERE / "core_reference"
CORE_EXECUTABLE: Final = "ao-core-exec"
CAUGHT: Final = frozenset({Verdict.FAIL, Verdict.UNTESTABLE})
COSTLY: Final = frozenset({"long-answer", "parameters-schema-slow"})
"""A fifth of all CPU time: they are played at the mutants of their own requirements only."""
OF_THE_REST: Final = 8
MUTANTS_AT_ONCE: Final = 4
VECTORS_AT_ONCE: Final = 6
"""Most vectors wait most of the time: so many on two cores still give each what it needs."""
VECTORS_THAT_WAIT_AT_ONCE: Final = 48
PLAYED_AGAIN: Final = 20
"""Where more mutants than that were not caught exactly, it is not the machine."""
TOLD_EACH: Final = 20
"""After so many mutants the run says how far it is; it takes half an hour."""
PATIENCE_SECONDS: Final = 15.0
"""Added to the time that a vector works; the reference executor needs a second or two, and a mutant may hang."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece of source text that stands once in a file, and what it is replaced by."""

    file: str
    find: str
    replace: str


@dataclass(frozen=True, slots=True)
class Mutant:
    """What is replaced in the reference executor, and the requirement that this breaks."""

    name: str
    breaks: str
    title: str
    pieces: tuple[Piece, ...]
    waits: bool = False
    """Whether it makes most plays last for many seconds."""
    base: str = "standard"
    """The level of the executor that is broken, and that is asked for."""

    @property
    def folder(self) -> Path:
        """The folder of the executor that is broken."""
        return REFERENCE if self.base == "standard" else CORE_REFERENCE

    @property
    def executable(self) -> str:
        """Its executable in that folder."""
        return EXECUTABLE if self.base == "standard" else CORE_EXECUTABLE


@dataclass(frozen=True, slots=True)
class Caught:
    """What the suite said about a mutant."""

    mutant: Mutant
    broken: frozenset[str]
    """The requirements that failed, or warned where they are a SHOULD."""
    shown: tuple[tuple[str, str], ...]
    """Each vector that showed something, and what."""
    harness_errors: tuple[str, ...]

    @property
    def exactly(self) -> bool:
        """Whether its own requirement failed and no other."""
        return self.broken == {self.mutant.breaks} and not self.harness_errors

    def __str__(self) -> str:
        found = ", ".join(sorted(self.broken)) or "nothing"
        lines = [f"{self.mutant.name}: breaks {self.mutant.breaks}, caught as {found}"]
        lines += [f"    {vector}: {text}" for vector, text in self.shown if not text.startswith(self.mutant.breaks)][:8]
        return "\n".join([*lines, *self.harness_errors])


def load_mutants() -> list[Mutant]:
    """Return every mutant of the reference executor."""
    return [
        Mutant(
            name=fields["name"],
            breaks=fields["breaks"],
            title=fields["title"],
            pieces=tuple(
                Piece(piece["file"], piece["find"], piece["replace"]) for piece in (fields, *fields.get("also", []))
            ),
            waits=fields.get("waits", False),
            base=fields.get("base", "standard"),
        )
        for path in sorted(TABLES.glob("*.toml"))
        for fields in _read(path).get("mutant", [])
    ]


def _read(path: Path) -> dict[str, Any]:
    return tomllib.loads(path.read_text(encoding="utf-8"))


def break_reference(mutant: Mutant, folder: Path) -> Path:
    """Copy the reference executor with the mutant's pieces replaced, and return the executable.

    Raises:
        ValueError: a piece is not there exactly once.
    """
    copy = folder / "reference"
    shutil.copytree(mutant.folder, copy, ignore=shutil.ignore_patterns("__pycache__"))
    for piece in mutant.pieces:
        path = copy / piece.file
        source = path.read_text(encoding="utf-8")
        if source.count(piece.find) != 1:
            raise ValueError(
                f"{mutant.name}: a piece stands {source.count(piece.find)} times in {piece.file}, not once"
            )
        path.write_text(source.replace(piece.find, piece.replace), encoding="utf-8")
    compileall.compile_dir(copy, quiet=2)
    return copy / mutant.executable


def vectors_that_see(mutant: Mutant, vectors: Sequence[ProcessVector], seed: int, rest: int) -> list[ProcessVector]:
    """Return the vectors to play: those of its requirement, some that these build on, and some of the rest."""
    if mutant.base == "core":
        return [vector for vector in vectors if vector.level == "core" or mutant.breaks in vector.requirements]
    dice = random.Random(f"{seed}:{mutant.name}")  # a seed must choose the same again
    own = [vector for vector in vectors if mutant.breaks in vector.requirements]
    built_on = {requirement for vector in own for requirement in vector.builds_on}
    others = [vector for vector in vectors if vector not in own and vector.id not in COSTLY]
    below = [vector for vector in others if built_on & set(vector.requirements)]
    beside = [vector for vector in others if vector not in below]
    return [*own, *dice.sample(below, min(len(below), rest)), *dice.sample(beside, min(len(beside), rest))]


def play_at(mutant: Mutant, vectors: Sequence[ProcessVector]) -> Caught:
    """Play vectors at a mutant."""
    at_once = VECTORS_THAT_WAIT_AT_ONCE if mutant.waits else VECTORS_AT_ONCE
    with tempfile.TemporaryDirectory(prefix="ao-mutant-") as scratch:
        executable = break_reference(mutant, Path(scratch))
        played = [one.hurried(PATIENCE_SECONDS + 2 * one.works_for_seconds) for one in vectors]
        result = run_suite(Plan(command=(str(executable),), level=mutant.base, vectors=played, jobs=at_once))
    return Caught(
        mutant,
        frozenset(
            rule.id
            for rule in result.requirements
            if rule.verdict in CAUGHT or (rule.verdict is Verdict.WARN and rule.keyword == "SHOULD")
        ),
        tuple(
            (vector.id, f"{finding.requirement}: expected {finding.expected}, found {finding.found}"[:300])
            for vector in result.vectors
            for finding in vector.findings
        ),
        tuple(vector.reason for vector in result.vectors if vector.verdict is Verdict.HARNESS_ERROR),
    )


def play_all(mutants: Sequence[Mutant], chosen: Sequence[Sequence[ProcessVector]], jobs: int) -> list[Caught]:
    """Play at all mutants, many at once; what was not caught exactly is played again alone, before it counts.

    A busy machine can hide a mistake, and make another of being late.
    """
    found = list[Caught]()
    with ProcessPoolExecutor(jobs) as pool:
        for caught in pool.map(play_at, mutants, chosen):
            found.append(caught)
            if not caught.exactly or len(found) % TOLD_EACH == 0:
                verdict = "told exactly" if caught.exactly else "not told exactly, to be played again"
                print(f"{len(found)}/{len(mutants)} {caught.mutant.name}: {verdict}", file=sys.stderr, flush=True)
    if sum(not caught.exactly for caught in found) > PLAYED_AGAIN:
        return found
    return [
        caught if caught.exactly else play_at(caught.mutant, played)
        for caught, played in zip(found, chosen, strict=True)
    ]


def main(arguments: Sequence[str]) -> int:
    """Play at all mutants, or those that are named, and print what came of it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--jobs", type=int, default=MUTANTS_AT_ONCE, help="how many mutants at once")
    parser.add_argument("--sample", type=int, help="only every so-many-th mutant")
    parser.add_argument("--rest", type=int, default=OF_THE_REST, help="how many vectors beside its own, twice")
    parser.add_argument("--seed", type=int, default=date.today().toordinal(), help="of the vectors beside its own")
    asked = parser.parse_args(arguments)
    began = time.monotonic()
    mutants = [
        mutant for mutant in load_mutants() if not asked.names or {mutant.name, mutant.breaks} & set(asked.names)
    ]
    if asked.sample:
        mutants = mutants[asked.seed % asked.sample :: asked.sample]
    mutants.sort(key=lambda mutant: not mutant.waits)
    vectors = load_process_vectors()
    chosen = [vectors_that_see(mutant, vectors, asked.seed, asked.rest) for mutant in mutants]
    found = play_all(mutants, chosen, asked.jobs)
    inexact = [caught for caught in found if not caught.exactly]
    for caught in inexact:
        print(caught, flush=True)
    useful = {vector for caught in found for vector, _ in caught.shown}
    score = {
        "date": date.today().isoformat(),
        "mutants": len(mutants),
        "caught_exactly": len(mutants) - len(inexact),
        "score": round(1 - len(inexact) / len(mutants), 3),
        "not_caught": [caught.mutant.name for caught in inexact if caught.mutant.breaks not in caught.broken],
        "requirements": len({mutant.breaks for mutant in mutants}),
        "vectors_played": sum(map(len, chosen)),
        "vectors_that_caught_none": []
        if asked.names or asked.sample
        else [one.id for one in vectors if one.id not in useful],
        "seed": asked.seed,
        "seconds": round(time.monotonic() - began),
    }
    print(json.dumps(score))
    return int(bool(score["not_caught"] if asked.sample else inexact))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
