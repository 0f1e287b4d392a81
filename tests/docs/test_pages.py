"""The pages keep what they promise: links lead somewhere, examples run, tables agree with the code."""

import os
import re
import subprocess
import sys
import tomllib
from dataclasses import fields
from pathlib import Path

import click
import pytest
import yaml

from ao_executors.claude_code.claude_config import CONFIG_SCHEMA, PERMISSION_MODES
from ao_executors.scaffold.project import make_project
from ao_protocol.contracts import OutputOptions, Strategy
from ao_protocol.errors import ExitCode
from ao_protocol.published import load_requirements
from ao_runner.cli.gating import EXIT_REFUSED
from ao_runner.cli.program import program
from tests.process.executors.examples.building import skip_without

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    [
        *(ROOT / name for name in ("README.md", "CHANGELOG.md", "protocol/SPEC.md")),
        *(ROOT / "docs").rglob("*.md"),
        *(ROOT / ".github").rglob("*.md"),
    ]
)
OPTION = re.compile(r"`(?:-\w`, `)?(--[a-z-]+)")
LINK = re.compile(r"\[[^\]]*\]\(([^)#\s]+)?(?:#([^)\s]+))?\)")


def test_links_between_pages_lead_somewhere() -> None:
    broken = []
    for page in PAGES:
        for target, anchor in LINK.findall(page.read_text()):
            if target.startswith(("http:", "https:")):
                continue
            found = (page.parent / target).resolve() if target else page
            if not found.exists() or (anchor and anchor not in anchors_of(found)):
                broken.append(f"{page.relative_to(ROOT)}: {target}#{anchor}")
    assert broken == []


def anchors_of(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_every_page_is_in_the_menu_of_the_site() -> None:
    listed = set(re.findall(r'"([\w./-]+\.md)"', (ROOT / "docs" / "site.toml").read_text()))
    pages = {str(page.relative_to(ROOT)) for page in PAGES if not {".github", "examples"} & set(page.parts)}
    assert sorted(pages - listed) == []


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text().split()) <= 1200


def test_the_executor_on_the_page_runs(tmp_path: Path) -> None:
    page = ROOT / "docs" / "write-an-executor.md"
    (source,) = re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)
    executor = tmp_path / "ao-parrot-exec"
    executor.write_text(source)
    finished = subprocess.run(
        [sys.executable, str(executor)],
        input=b'{"schema_version":"3.0","mode":"start","parameters":{"prompt":"hello"}}\n',
        env={"PATH": os.environ["PATH"]},
        capture_output=True,
        timeout=100,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    assert b'"result_text":"HELLO"' in finished.stdout


@pytest.mark.thorough
def test_the_failure_on_the_page_about_conformance_is_what_comes(tmp_path: Path) -> None:
    skip_without("jq", "the sample of a failure, which is an executor in bash,")
    page = (ROOT / "docs" / "conformance.md").read_text()
    project = make_project("bash", tmp_path / "my-first")
    executor = project.folder / project.executable
    executor.write_text(f"{executor.read_text()}exit 3\n")

    command = [str(Path(sys.executable).with_name("ao")), "conformance", "smoke", "--", str(executor)]
    played = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)

    (shown,) = re.findall(r"```text\n(✗ .*?)```", page, re.DOTALL)
    assert told(shown) == told(re.findall(r"^✗ .*?\n(?=\n)", played.stdout, re.DOTALL | re.MULTILINE)[0])


def told(failure: str) -> list[str]:
    """Return the lines of a failure without times, folders, ids, text of events, and a vector that comes by chance."""
    failure = failure.replace("sigterm-ends-it, ", "")  # only if the program ends before the signal reaches it
    failure = re.sub(r"(?<=run_|ses_)[0-9a-f]+", "", failure)
    failure = re.sub(r"(?<= )/\S+(?=/my-first/)", "", failure)
    failure = re.sub(r"( start| out +\d)  .*\n( {20,}.*\n)*", r"\1\n", failure)
    return re.sub(r"(?<= )\d+\.\d{3}(?= )", "", failure).splitlines()


def test_the_dockerfile_copies_what_is_there_and_installs_extras_that_are() -> None:
    text = (ROOT / "docs" / "container" / "Dockerfile").read_text()
    copied = [name for line in re.findall(r"^COPY (?!--)(.*) \S+$", text, re.MULTILINE) for name in line.split()]
    (extras,) = re.findall(r"'\.\[([\w,]+)\]'", text)
    known = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]

    assert [name for name in copied if not (ROOT / name).exists()] == []
    assert set(extras.split(",")) <= known.keys()


def test_the_compose_file_builds_the_image_and_gives_each_worker_a_home_and_a_name() -> None:
    path = ROOT / "docs" / "container" / "compose.yaml"
    services = yaml.safe_load(path.read_text())["services"]
    workers = {name: service for name, service in services.items() if "build" in service}

    for name, service in workers.items():
        build = service["build"]
        assert (path.parent / build["context"] / build["dockerfile"]).resolve() == path.with_name("Dockerfile")
        assert service["hostname"] == name
        assert service["volumes"] == [f"{name}:/home/ao/state"]
        assert service["environment"]["AO_STORE"] == "postgresql://ao@database/ao"
    assert len(workers) == 2


def test_the_page_about_commands_names_every_exit_code() -> None:
    section = (ROOT / "docs" / "cli.md").read_text().split("\n### Exit codes\n", 1)[1].split("\n## ", 1)[0]
    rows = re.findall(r"^\| (\d+) \| [^|]+ \|$", section, re.MULTILINE)
    assert [int(code) for code in rows] == sorted({*map(int, ExitCode), EXIT_REFUSED})


@pytest.mark.parametrize(
    ("name", "page", "heading"),
    [
        ("run", "cli", "`ao run`"),
        ("submit", "cli", "The queue"),
        ("worker", "worker", "Options"),
        ("serve", "serve", "Pages and API"),
        ("model-sim", "model-simulator", "From any other language"),
        ("conformance run", "conformance", "In CI"),
    ],
)
def test_a_table_of_options_has_every_option_of_its_command(name: str, page: str, heading: str) -> None:
    text = (ROOT / "docs" / f"{page}.md").read_text()
    section = text.split(f" {heading}\n", 1)[1].split("\n## ", 1)[0]
    told = {one for cell in re.findall(r"^\| (`-.*?`) \|", section, re.MULTILINE) for one in OPTION.findall(cell)}

    expected = [one for one in options_of(name) if name != "submit" or one not in options_of("run")]
    assert [one for one in expected if not one & told] == []
    assert sorted(told - {word for one in options_of(name) for word in one}) == []


def options_of(name: str) -> list[set[str]]:
    """Return the long names of each option, of which a switch may have two."""
    command: click.Command | None = program
    for word in name.split():
        assert isinstance(command, click.Group)
        command = command.get_command(click.Context(command), word)
    assert command is not None
    options = [one for one in command.params if isinstance(one, click.Option) and not one.hidden]
    return [{word for word in (*one.opts, *one.secondary_opts) if word.startswith("--")} for one in options]


def test_the_page_about_contracts_names_every_option_and_strategy() -> None:
    page = (ROOT / "docs" / "contracts.md").read_text()
    options = [field.name for field in fields(OutputOptions)]

    assert re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE) == [
        *options,
        *map(
            str,
            (Strategy.SYSTEM_PROMPT, Strategy.PROMPT, Strategy.NATIVE, Strategy.TOOL, Strategy.AUTO, Strategy.EXTRACT),
        ),
    ]
    assert sorted(Strategy) == sorted(set(re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE)) - set(options))


def test_the_page_about_claude_names_every_key_and_permission_mode() -> None:
    page = (ROOT / "docs" / "claude-code.md").read_text()
    keys, modes = (page.split(f"\n## {title}\n")[1].split("\n## ")[0] for title in ("Keys", "Permission modes"))

    assert sorted(re.findall(r"^\| `(\w+)` \|", keys, re.MULTILINE)) == sorted(CONFIG_SCHEMA["properties"])
    assert sorted(re.findall(r"^\| `(\w+)` \|", modes, re.MULTILINE)) == sorted(PERMISSION_MODES)


SECTIONS = {
    "ao_protocol/framing.py": "Framing and I-JSON",
    "ao_protocol/lifecycle.py": "Lifecycle",
    "ao_protocol/inputs.py": "Parameters",
    "ao_protocol/contracts/enforcement.py": "Strategies",
    "ao_protocol/contracts/contract.py": "Which contract",
}
"""The section of the specification that a module is about."""


@pytest.mark.parametrize("module", SECTIONS)
def test_a_module_names_the_section_that_it_is_about(module: str) -> None:
    titles = dict(re.findall(r"^##+ ([0-9.]+) (.*)$", (ROOT / "protocol" / "SPEC.md").read_text(), re.MULTILINE))
    first = (ROOT / "protocol" / module).read_text().split('"""')[1]

    assert [titles[number] for number in re.findall(r"SPEC (\d+(?:\.\d+)?)", first)] == [SECTIONS[module]]


def test_sections_that_the_sources_name_are_there() -> None:
    numbers = set(re.findall(r"^##+ ([0-9.]+) ", (ROOT / "protocol" / "SPEC.md").read_text(), re.MULTILINE))
    sources = [path for folder in ("protocol", "runner", "executors") for path in (ROOT / folder).rglob("*.py")]

    named = {
        (number, path.name) for path in sources for number in re.findall(r"SPEC (\d+(?:\.\d+)?)", path.read_text())
    }

    assert sorted((number, name) for number, name in named if number not in numbers) == []


def test_the_page_about_levels_names_levels_and_vectors_that_are_there() -> None:
    page = (ROOT / "docs" / "decisions" / "levels.md").read_text()
    row = r"^\| (AOX-\d+) .* \| core \| (\w+) \| (.*?) \| (?:`([\w-]+)`|tests/[\w/]+) \|$"
    rows = re.findall(row, page, re.MULTILINE)
    levels = {requirement.id: str(requirement.level) for requirement in load_requirements()}
    vectors = {
        vector
        for path in (ROOT / "protocol" / "ao_protocol" / "vectors" / "3.0").rglob("*.json")
        for vector in re.findall(r'"id": "([\w-]+)"', path.read_text())
    }

    assert len({requirement for requirement, *_ in rows}) == 76
    assert [(requirement, now) for requirement, now, *_ in rows if levels[requirement] != now] == []
    keepers = {name for _, _, kept, _ in rows for name in re.findall(r"AOX-\d+", kept)}
    assert {name for name in keepers if levels[name] not in ("core", "runner")} == set()
    assert [vector for *_, vector in rows if vector and vector not in vectors] == []
