"""Every requirement of SPEC.md has an id of its own, and every MUST is covered or says in public why it is not."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from ao_protocol.published import UnknownRequirement, load_requirements, load_vectors, requirement, validator_for

ROOT = Path(__file__).parents[3]
SPEC = (ROOT / "protocol" / "SPEC.md").read_text(encoding="utf-8")
SECTION = re.compile(r"##+ (\d+(?:\.\d+)?) (.+)")
DEMAND = re.compile(r"- \*\*(AOX-\d{3})\*\* \(([A-Z ]+), ([a-z_:]+)\) (.+)")
REQUIREMENTS = load_requirements()
IDS = [known.id for known in REQUIREMENTS]

StatedDemand = tuple[str, str, str, str, str, str]


def stated_in_the_specification() -> Iterator[StatedDemand]:
    section, title = "", ""
    for line in SPEC.splitlines():
        if heading := SECTION.fullmatch(line):
            section, title = heading.groups()
        elif demand := DEMAND.fullmatch(line):
            name, keyword, level, text = demand.groups()
            yield name, keyword, level, section, title, text


def test_the_specification_and_the_published_set_state_the_same_demands_in_the_same_words_and_order() -> None:
    published = [
        (known.id, known.keyword, known.level, known.section, known.section_title, known.text) for known in REQUIREMENTS
    ]

    assert published == list(stated_in_the_specification())


def test_every_demand_is_written_in_the_form_that_this_test_reads() -> None:
    begun = re.findall(r"^- \*\*AOX", SPEC, re.MULTILINE)

    assert len(list(stated_in_the_specification())) == len(begun) - 1  # the first one shows the form
    assert [known.id for known in REQUIREMENTS if not known.text.endswith((".", ":"))] == []


def test_the_published_set_keeps_its_schema() -> None:
    document = json.loads((ROOT / "protocol/ao_protocol/requirements/3.0.json").read_text(encoding="utf-8"))

    assert [error.message for error in validator_for("requirement").iter_errors(document)] == []
    assert document["version"] == "3.0"


def test_ids_are_in_order_and_of_a_known_version() -> None:
    assert sorted(set(IDS)) == IDS
    assert load_requirements("9.9") == []


def test_every_requirement_has_a_reason_of_its_own_that_fits_a_report() -> None:
    reasons = [known.why for known in REQUIREMENTS]

    assert [known.id for known in REQUIREMENTS if not 40 <= len(known.why) <= 600] == []
    assert [known.id for known in REQUIREMENTS if known.why == known.text or not known.why.endswith((".", "?"))] == []
    assert len(set(reasons)) == len(reasons)


def test_a_requirement_is_found_by_its_id() -> None:
    found = requirement("AOX-063")

    assert (found.keyword, found.level, found.capability) == ("MUST", "capability:cancel", "cancel")
    assert (found.section, found.section_title) == ("4.4", "Control lines")
    assert found.untestable is None
    assert {known.level for known in REQUIREMENTS if known.capability is None} == {"core", "standard", "runner"}


@pytest.mark.parametrize(
    ("name", "said"),
    [
        pytest.param("aox0016", r"no requirement 'aox0016'; near to it are AOX-", id="in small letters"),
        pytest.param("AOX191", r"no requirement 'AOX191'; near to it are AOX-191$", id="without its hyphen"),
        pytest.param("flush", r"no requirement 'flush'; ids look like AOX-016$", id="no id at all"),
    ],
)
def test_an_unknown_id_is_an_error_that_names_those_near_to_it(name: str, said: str) -> None:
    with pytest.raises(UnknownRequirement, match=said):
        requirement(name)


def test_a_requirement_has_a_vector_or_says_why_nobody_can_test_it_and_not_both() -> None:
    with_a_vector = {name for vector in load_vectors() for name in vector["requirements"]}
    untestable = {known.id for known in REQUIREMENTS if known.untestable}

    assert sorted(set(IDS) - with_a_vector - untestable) == []
    assert sorted(untestable & with_a_vector) == []


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
