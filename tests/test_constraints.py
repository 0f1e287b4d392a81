"""The versions that `.ci/run` installs, `.ci/constraints.txt`."""

import tomllib
from itertools import chain
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
LINES = [
    line for line in (ROOT / ".ci" / "constraints.txt").read_text().splitlines() if line and not line.startswith("#")
]


def test_a_line_is_a_name_and_a_version() -> None:
    odd = []
    for line in LINES:
        requirement = Requirement(line)
        operators = [specifier.operator for specifier in requirement.specifier]
        if operators != ["=="] or "*" in line or requirement.url or requirement.extras:
            odd.append(line)

    assert odd == []


def test_every_dependency_has_a_version_that_it_may_have() -> None:
    pinned = {requirement.name: requirement.specifier for requirement in map(Requirement, LINES)}
    lists = [
        PROJECT["build-system"]["requires"],
        PROJECT["project"]["dependencies"],
        *PROJECT["project"]["optional-dependencies"].values(),
    ]
    unpinned = []
    for dependency in map(Requirement, chain.from_iterable(lists)):
        versions = [specifier.version for specifier in pinned.get(canonicalize_name(dependency.name), ())]
        if dependency.name != PROJECT["project"]["name"] and not any(dependency.specifier.filter(versions)):
            unpinned.append(str(dependency))

    assert unpinned == []
