"""Which program a procedural agent may be."""

from pathlib import Path

import pytest

from tests.process.executors.driver import invocation, run
from tests.process.executors.procedural.programs import PROCEDURAL, start_of, write_command


@pytest.mark.parametrize(
    "command", ["tool", "./tool", "bin/tool", "inside"], ids=["plain", "dotted", "below", "symlink"]
)
def test_a_program_in_the_project_directory_is_found(tmp_path: Path, command: str) -> None:
    write_command(tmp_path, "tool", "echo '\"found\"'")
    write_command(tmp_path, "bin/tool", "echo '\"found\"'")
    (tmp_path / "inside").symlink_to(tmp_path / "bin" / "tool")

    assert run(PROCEDURAL, start_of(tmp_path, command)).terminal["result_data"] == "found"


def test_commands_dir_is_looked_in_instead(tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    write_command(tmp_path / "commands", "where", "pwd")
    config = {"commands_dir": str(tmp_path / "commands")}
    ended = run(PROCEDURAL, start_of(tmp_path / "project", "where", executor_config=config))

    assert ended.terminal["result_data"]["stdout"] == f"{tmp_path}/project\n"


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        ("/bin/echo", "is not a path below"),
        ("../outside", "is not a path below"),
        ("sub/../../outside", "is not a path below"),
        ("link", "leads out of"),
        ("linked/echo", "leads out of"),
        ("absent", "is not there"),
        ("n" * 300, "cannot be looked up"),
        ("circle", "cannot be looked up"),
        ("folder", "is not a file"),
        ("plain.txt", "is not executable"),
        ("no-shebang", "cannot be started"),
        ("no-interpreter", "cannot be started"),
    ],
)
def test_anything_else_is_a_missing_dependency(tmp_path: Path, command: str, reason: str) -> None:
    project = tmp_path / "project"
    write_command(tmp_path, "outside", "echo")
    (project / "folder").mkdir(parents=True)
    (project / "link").symlink_to(tmp_path / "outside")
    (project / "linked").symlink_to("/bin")
    (project / "circle").symlink_to("circle")
    (project / "plain.txt").write_text("#!/bin/sh\n")
    (project / "no-shebang").write_text("echo")
    (project / "no-shebang").chmod(0o755)
    (project / "no-interpreter").write_text("#!/absent/interpreter\n")
    (project / "no-interpreter").chmod(0o755)
    ended = run(PROCEDURAL, start_of(project, command))

    assert (ended.error["type"], ended.error["origin"], ended.exit_code) == ("dependency_missing", "environment", 1)
    assert repr(command) in ended.error["message"]
    assert reason in ended.error["message"]


@pytest.mark.parametrize(
    "document",
    [
        invocation(),
        invocation(agent_blueprint={"name": "a", "type": "procedural"}),
        invocation(agent_blueprint={"name": "a", "type": "procedural", "command": "  "}),
        invocation(agent_blueprint={"name": "a", "type": "procedural", "command": "unbalanced 'quote"}),
    ],
    ids=["no blueprint", "no command", "blank command", "unbalanced quote"],
)
def test_a_blueprint_without_a_command_is_refused(document: dict[str, object]) -> None:
    ended = run(PROCEDURAL, document)

    assert (ended.error["type"], ended.exit_code) == ("invalid_invocation", 64)
    assert ended.error["details"]["problems"][0].startswith("$.agent_blueprint.command: ")


def test_fixed_arguments_come_before_the_parameters_and_no_shell_sees_them(tmp_path: Path) -> None:
    write_command(tmp_path, "show", 'for a in "$@"; do echo "[$a]"; done')
    ended = run(PROCEDURAL, start_of(tmp_path, "show --fixed 'two words' '$HOME;ls'", {"x": "a b", "y": True}))

    shown = ended.terminal["result_data"]["stdout"].split("\n")
    assert shown == ["[--fixed]", "[two words]", "[$HOME;ls]", "[--x]", "[a b]", "[--y]", ""]


@pytest.mark.requirement("AOX-140")
def test_a_parameter_that_cannot_be_an_argument_is_refused(tmp_path: Path) -> None:
    write_command(tmp_path, "tool", "touch worked")
    ended = run(PROCEDURAL, start_of(tmp_path, "tool", {"a b": 1}))

    assert (ended.error["type"], ended.exit_code) == ("parameters_validation_failed", 64)
    assert ended.error["validation_errors"] == ended.error["details"]["validation_errors"]
    assert ended.error["validation_errors"][0].startswith('$["a b"]: ')
    assert ended.error["details"]["schema"] == {"type": "object"}
    assert not (tmp_path / "worked").exists()


def test_the_command_gets_the_variables_of_its_configuration(tmp_path: Path) -> None:
    write_command(tmp_path, "tool", 'echo "$GREETING"')
    ended = run(PROCEDURAL, start_of(tmp_path, "tool", executor_config={"env": {"GREETING": "hello"}}))

    assert ended.terminal["result_data"]["stdout"] == "hello\n"


@pytest.mark.requirement("AOX-190")
def test_the_command_finds_an_empty_stdin(tmp_path: Path) -> None:
    write_command(tmp_path, "tool", "cat; echo end")
    ended = run(PROCEDURAL, start_of(tmp_path, "tool", control={"stdin": "closed"}))

    assert ended.terminal["result_data"]["stdout"] == "end\n"
