"""How profiles are shown to people and to scripts. No value of a secret is in any of it."""

import os
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import click

from ao_protocol.wire import JsonObject
from ao_runner.cli.narration import plain_text, shorten
from ao_runner.cli.tables import print_table
from ao_runner.profiles import FoundProfile, Limits, Profile, missing_variables

HEADER: Final = ["PROFILE", "EXECUTOR", "LIFECYCLE", "WARM", "LIMITS"]
UNITS: Final = {"seconds": "s", "bytes": "B", "usd": "USD"}
MAX_NAME_CHARACTERS: Final = 30
MIN_LIMITS_CHARACTERS: Final = 12

_BINARY: Final = ((1024**3, "GiB"), (1024**2, "MiB"), (1024, "KiB"), (1, "B"))


@dataclass(frozen=True, slots=True)
class JudgedProfile:
    """A profile, or what should be one, everything that is wrong with it, and what is odd about it."""

    found: FoundProfile
    problems: Sequence[str]
    remarks: Sequence[str] = ()


def print_profiles(profiles: Sequence[JudgedProfile]) -> None:
    """Print a table to stdout. At a terminal the limits are cut to its width."""
    rows = [_row(judged.found) for judged in profiles]
    if sys.stdout.isatty():
        taken = sum(max(len(row[column]) for row in (HEADER, *rows)) + 2 for column in range(len(HEADER) - 1))
        room = max(MIN_LIMITS_CHARACTERS, shutil.get_terminal_size().columns - taken)
        rows = [[*row[:-1], shorten(row[-1], room)] for row in rows]
    print_table(HEADER, rows)


def show_problems(name: str, problems: Sequence[str]) -> None:
    """Say on stderr what is wrong with a profile."""
    for problem in problems:
        click.secho(f"✗ {shorten(name, MAX_NAME_CHARACTERS)}: {plain_text(problem)}", fg="red", err=True)


def listed_document(judged: JudgedProfile) -> JsonObject:
    """Return a profile as an entry of a list for scripts; `profile` is null where there is none to be read."""
    profile = judged.found.profile
    return {
        "kind": "profile",
        "name": judged.found.name,
        "path": str(judged.found.path),
        "profile": None if profile is None else profile_document(profile, os.environ),
        "problem": "\n".join(judged.problems) or None,
        "remarks": [*judged.remarks],
    }


def profile_document(profile: Profile, environ: Mapping[str, str]) -> JsonObject:
    """Return a profile in the words of its file, and which of its variables are missing from `environ`."""
    written: JsonObject = profile.model_dump(mode="json", by_alias=True)
    return {**written, "missing_variables": [*missing_variables(profile, environ)]}


def limits_text(limits: Limits) -> str:
    """Return the limits that are set, in a line: `timeout 1800 s, max turns 50, memory 2 GiB`."""
    return ", ".join(_limits(limits))


def _limits(limits: Limits) -> Iterator[str]:
    for name, value in limits:
        if value is None:
            continue
        words = name.split("_")
        unit = UNITS.get(words[-1])
        called = " ".join(words if unit is None else words[:-1])
        yield f"{called} {_size(value)}" if unit == "B" else f"{called} {value:g}{f' {unit}' if unit else ''}"


def _size(size_bytes: int) -> str:
    factor, unit = next((factor, unit) for factor, unit in _BINARY if size_bytes % factor == 0)
    return f"{size_bytes // factor} {unit}"


def _row(found: FoundProfile) -> list[str]:
    profile = found.profile
    name = shorten(found.name, MAX_NAME_CHARACTERS)
    if profile is None:
        return [name, "?", "?", "?", "not valid"]
    executor = os.path.relpath(profile.executor) if "/" in profile.executor else profile.executor
    warm = "-" if profile.warm is None else str(profile.warm.size)
    return [name, shorten(executor, MAX_NAME_CHARACTERS), profile.lifecycle, warm, limits_text(profile.limits) or "-"]
