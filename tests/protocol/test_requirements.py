"""Every requirement of SPEC.md has an id of its own, and every MUST is covered or says in public why it is not."""

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from ao_protocol.vector_store import load_vectors

ROOT = Path(__file__).parents[2]
SPEC = (ROOT / "protocol" / "SPEC.md").read_text(encoding="utf-8")
UNTESTED: dict[str, str] = tomllib.loads((Path(__file__).parent / "untested.toml").read_text(encoding="utf-8"))[
    "untested"
]
CAPABILITIES = "resume|multi_turn|prepare|cancel|streaming|check|trace|output_schema"
LEVELS = re.compile(f"core|standard|runner|capability:({CAPABILITIES})")


class Requirement(NamedTuple):
    """A demand as SPEC.md states it."""

    id: str
    keyword: str
    level: str
    text: str


REQUIREMENTS = [
    Requirement(*found)
    for found in re.findall(r"^- \*\*(AOX-\d{3})\*\* \(([A-Z ]+), ([a-z_:]+)\) (.+)$", SPEC, re.MULTILINE)
]
IDS = [requirement.id for requirement in REQUIREMENTS]


def markers() -> Iterator[str]:
    """Yield the ids that tests name as `@pytest.mark.requirement("AOX-…")` or in a `pytestmark`."""
    for path in (ROOT / "tests").rglob("test_*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.mark.requirement":
                yield from (str(argument.value) for argument in node.args if isinstance(argument, ast.Constant))


def covered() -> set[str]:
    return {name for vector in load_vectors() for name in vector["requirements"]} | set(markers())


def test_every_requirement_is_written_in_the_form_that_this_test_reads() -> None:
    begun = re.findall(r"^- \*\*AOX", SPEC, re.MULTILINE)

    assert len(REQUIREMENTS) == len(begun) - 1  # the first one shows the form
    assert {requirement.keyword for requirement in REQUIREMENTS} <= {"MUST", "SHOULD"}
    assert all(LEVELS.fullmatch(requirement.level) for requirement in REQUIREMENTS)
    assert all(requirement.text.endswith((".", ":")) for requirement in REQUIREMENTS)


def test_ids_are_unique_and_ascend() -> None:
    assert sorted(set(IDS)) == IDS


def test_every_must_is_covered_by_a_vector_or_a_test_or_stands_in_the_table_of_the_untested() -> None:
    musts = {requirement.id for requirement in REQUIREMENTS if requirement.keyword == "MUST"}

    assert sorted(musts - covered() - UNTESTED.keys()) == []


def test_what_is_covered_does_not_stand_in_the_table_of_the_untested() -> None:
    assert sorted(UNTESTED.keys() & covered()) == []


def test_every_untested_requirement_has_a_reason() -> None:
    assert [name for name, reason in UNTESTED.items() if len(reason) < 20] == []


def test_every_id_that_is_named_anywhere_exists() -> None:
    named = {
        (found, str(path.relative_to(ROOT)))
        for folder in ("protocol", "runner", "executors", "tests", "docs")
        for path in (ROOT / folder).rglob("*")
        if path.suffix in {".py", ".md", ".json", ".toml"}
        for found in re.findall(r"AOX-\d{3}", path.read_text(encoding="utf-8"))
    }

    assert sorted(place for place in named if place[0] not in IDS) == []


def test_every_section_that_the_code_cites_exists() -> None:
    sections = set(re.findall(r"^##+ (\d+(?:\.\d+)?) ", SPEC, re.MULTILINE))
    cited = {
        (section, str(path.relative_to(ROOT)))
        for folder in ("protocol", "runner", "executors")
        for path in (ROOT / folder).rglob("*.py")
        for citation in re.findall(r"\bSPEC (\d+(?:\.\d+)?(?:, \d+(?:\.\d+)?)*)", path.read_text(encoding="utf-8"))
        for section in citation.split(", ")
    }

    assert sorted(place for place in cited if place[0] not in sections) == []
