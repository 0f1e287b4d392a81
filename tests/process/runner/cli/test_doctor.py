"""`ao doctor`: what it finds, and what it never shows."""

import json
from pathlib import Path
from typing import Any

import pytest
from pytest_subprocess import FakeProcess

from ao_protocol.documents import Description
from ao_runner.diagnosis import Check, examine_executor, examine_machine
from ao_runner.discovery import Executor
from ao_runner.store.opening import StorePlace
from tests.process.runner.cli.calling import Ao, miniature

EXECUTOR = Executor("x", Path(miniature("answers_at_once")))


def description(**fields: object) -> Description:
    return Description.model_validate({"executor": {"name": "x", "version": "1.2"}, **fields})


@pytest.mark.parametrize(
    ("answer", "shown"),
    [({"stdout": "2.1.330 (Claude Code)\n"}, ": 2.1.330 (Claude Code)"), ({"returncode": 1}, "")],
    ids=["with its version", "without one"],
)
def test_a_program_that_is_needed_is_shown(answer: dict[str, Any], shown: str, fp: FakeProcess, tmp_path: Path) -> None:
    claude = tmp_path / "claude"
    claude.write_text("#!/bin/sh\n")
    claude.chmod(0o755)
    fp.register([str(claude), "--version"], **answer)
    needs = description(requires_programs=[{"name": "claude"}])

    findings = list(examine_executor(EXECUTOR, needs, {"PATH": str(tmp_path)}, is_needed=True))

    assert findings[-1] == Check("executor x", "ok", f"claude at {claude}{shown}")


def test_a_program_that_is_missing_comes_with_the_way_to_get_it(tmp_path: Path) -> None:
    needs = description(requires_programs=[{"name": "no-such-program", "install_hint": "pip install it"}])

    findings = list(examine_executor(EXECUTOR, needs, {"PATH": str(tmp_path)}, is_needed=True))

    assert findings[-1] == Check("executor x", "problem", "no-such-program is not on PATH", "pip install it")


def test_of_a_secret_only_the_name_is_shown() -> None:
    findings = list(
        examine_executor(EXECUTOR, description(secrets=["X_KEY"]), {"X_KEY": "the-value-itself"}, is_needed=True)
    )

    assert findings[-1].text == "X_KEY set (value not shown)"


def test_an_executor_of_another_version_is_a_problem() -> None:
    (finding,) = examine_executor(EXECUTOR, description(schema_versions=["2.1"]), {}, is_needed=False)

    assert (finding.verdict, finding.text) == ("problem", "supports schema version 2.1, this runner 3.0")


@pytest.mark.parametrize("as_json", [True, False], ids=["json", "text"])
def test_a_broken_executor_makes_the_exit_code_1(as_json: bool, ao: Ao) -> None:
    folder = ao.folder / "bin"
    folder.mkdir()
    (folder / "ao-odd-exec").symlink_to(miniature("describes_nothing"))

    called = ao("doctor", *(["--json"] if as_json else []), PATH=f"{folder}:{ao.environment()['PATH']}")

    assert called.exit_code == 1
    if as_json:
        assert called.document["ok"] is False
        assert "executor odd" in {item["about"] for item in called.document["findings"] if item["verdict"] == "problem"}
    else:
        assert "✗ executor odd: " in called.stdout


def test_what_one_installation_mends_is_counted_once(ao: Ao) -> None:
    folder = ao.folder / "bin"
    folder.mkdir()
    needs = [{"name": "absent", "install_hint": "get it"}]
    told = {"schema_versions": ["3.0"], "executor": {"name": "x", "version": "1"}, "requires_programs": needs}
    for name in ("one", "two"):
        program = folder / f"ao-{name}-exec"
        program.write_text(f"#!/bin/sh\necho '{json.dumps(told)}'\n")
        program.chmod(0o755)

    called = ao("doctor", "one", "two", PATH=f"{folder}:/usr/bin:/bin", ANTHROPIC_API_KEY="x")

    assert called.stdout.count("absent is not on PATH") == 2
    others = [line for line in called.stdout.splitlines() if line.startswith("✗") and "absent" not in line]
    assert called.stdout.endswith(f"{len(others) + 1} to fix\n")


def test_what_an_executor_lacks_is_a_problem_only_if_it_is_named(ao: Ao) -> None:
    folder = ao.folder / "bin"
    folder.mkdir()
    told = {
        "executor": {"name": "one", "version": "1"},
        "requires_programs": [{"name": "absent", "install_hint": "get it"}],
    }
    program = folder / "ao-one-exec"
    program.write_text(f"#!/bin/sh\necho '{json.dumps({'schema_versions': ['3.0'], **told})}'\n")
    program.chmod(0o755)

    path = f"{folder}:/usr/bin:/bin"
    anyway, named, unknown = ao("doctor", PATH=path), ao("doctor", "one", PATH=path), ao("doctor", "two", PATH=path)

    assert (anyway.exit_code, named.exit_code, unknown.exit_code) == (0, 1, 2)
    assert "· executor one: absent is not on PATH\n    get it\n" in anyway.stdout
    assert "✗ executor one: absent is not on PATH\n    get it\n\n1 to fix\n" in named.stdout


def test_an_executor_that_is_content_without_a_program_is_given_no_advice_to_get_it(tmp_path: Path) -> None:
    program = tmp_path / "ao-x-exec"
    program.write_text("#!/bin/sh\necho '{}'\n")
    program.chmod(0o755)
    needs = description(
        capabilities={"check": True}, requires_programs=[{"name": "absent", "install_hint": "pip install it"}]
    )

    findings = list(examine_executor(Executor("x", program), needs, {"PATH": "/usr/bin:/bin"}, is_needed=True))

    assert [(finding.verdict, finding.advice) for finding in findings[1:]] == [("ok", None), ("note", None)]
    assert findings[-1].text.startswith("absent is not on PATH; ")


def test_the_program_is_shown_that_a_run_starts_and_not_one_on_path(tmp_path: Path) -> None:
    told = {"ok": True, "problems": [], "programs": [{"name": "x-cli", "path": "/wheel/x-cli", "version": "0.163.0"}]}
    for name, printed in {"ao-x-exec": json.dumps({**told, "remarks": ["it is new"]}), "x-cli": "0.171.0"}.items():
        (tmp_path / name).write_text(f"#!/bin/sh\necho '{printed}'\n")
        (tmp_path / name).chmod(0o755)
    needs = description(capabilities={"check": True}, requires_programs=[{"name": "x-cli"}])

    executor = Executor("x", tmp_path / "ao-x-exec")
    findings = list(examine_executor(executor, needs, {"PATH": f"{tmp_path}:/usr/bin:/bin"}, is_needed=True))

    assert [(one.verdict, one.text) for one in findings[1:]] == [
        ("ok", "x-cli at /wheel/x-cli: 0.163.0"),
        ("note", "it is new"),
        ("ok", "its own check passed"),
    ]


def test_a_program_that_is_asked_for_its_version_writes_into_no_home(tmp_path: Path) -> None:
    home, program = tmp_path / "home", tmp_path / "x-cli"
    home.mkdir()
    program.write_text('#!/bin/sh\necho > "$HOME/projects.json"\necho 1.0\n')
    program.chmod(0o755)
    needs = description(requires_programs=[{"name": "x-cli"}])

    environ = {"PATH": f"{tmp_path}:/usr/bin:/bin", "HOME": str(home)}
    findings = list(examine_executor(EXECUTOR, needs, environ, is_needed=True))

    assert (findings[-1].text, list(home.iterdir())) == (f"x-cli at {program}: 1.0", [])


def test_a_home_that_cannot_be_made_and_a_containment_that_is_none_are_problems(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    findings = {
        one.about: one for one in examine_machine(StorePlace(tmp_path / "file" / "home"), {"AO_CONTAINMENT": "none"})
    }

    assert {about: finding.verdict for about, finding in findings.items()} == {
        "python": "ok",
        "package": "ok",
        "home": "problem",
        "containment": "problem",
    }
    assert "AO_CONTAINMENT is 'none', expected one of cgroup, lifeline, process_group" in findings["containment"].text
