"""`ao executors`: executors and profiles, for people and for scripts."""

import json
from pathlib import Path

import pytest

from tests.process.runner.cli.calling import Ao, miniature

EXAMPLE = Path(__file__).parents[4] / "docs" / "examples" / "profiles" / "reviews.yaml"


@pytest.fixture
def profiles(ao: Ao) -> Ao:
    """Return an `ao` whose home has a good profile and four that cannot be used."""
    (ao.folder / "ao-home" / "profiles").mkdir(parents=True)
    tiny = miniature("answers_at_once")
    ao.write("ao-home/profiles/tiny.yaml", f"executor: {tiny}\nlimits: {{timeout_seconds: 5, memory_bytes: 512MiB}}\n")
    ao.write("ao-home/profiles/chat.yaml", f"executor: {tiny}\nlifecycle: persistent\n")
    ao.write("ao-home/profiles/caged.yaml", f"executor: {tiny}\nworkspace: copy\nsandbox: {{command: [no-cage, --]}}\n")
    ao.write("ao-home/profiles/gone.yaml", "executor: no-such-executor\n")
    ao.write("ao-home/profiles/typo.yaml", "executor: echo\nlimits: {timout_seconds: 5}\n")
    return ao


def test_profiles_are_listed_below_the_executors_and_what_is_wrong_with_them(profiles: Ao) -> None:
    called = profiles("executors", PATH="/usr/bin:/bin")

    executors, _, table = called.stdout.partition("\n\n")
    assert called.exit_code == 0
    assert executors.startswith("NAME ")
    assert [line.split()[0] for line in table.splitlines()] == ["PROFILE", "caged", "chat", "gone", "tiny", "typo"]
    assert table.splitlines()[1].split()[2:] == ["one_shot", "-", "copy", "no-cage", "-"]
    assert table.splitlines()[4].endswith(" one_shot    -     -          -        timeout 5 s, memory 512 MiB")
    assert table.splitlines()[5].split(maxsplit=6) == ["typo", "?", "?", "?", "?", "?", "not valid"]
    assert "✗ caged: $.sandbox.command: the sandbox of the profile 'caged' needs 'no-cage'" in called.stderr
    assert "✗ chat: $.lifecycle: persistent needs an executor with the capability multi_turn" in called.stderr
    assert "✗ gone: $.executor: no executor is called 'no-such-executor'" in called.stderr
    assert "$.limits.timout_seconds: unknown field; did you mean 'timeout_seconds'?" in called.stderr


def test_scripts_get_executors_and_profiles_in_one_list(profiles: Ao) -> None:
    listed = profiles("executors", "--json", PATH="/usr/bin:/bin").document

    by_name = {item["name"]: item for item in listed if item["kind"] == "profile"}
    assert {"executor", "profile"} == {item["kind"] for item in listed}
    assert by_name["tiny"]["problem"] is None
    assert by_name["tiny"]["profile"]["limits"]["memory_bytes"] == 512 * 1024**2
    assert by_name["typo"]["profile"] is None
    assert "timout_seconds" in by_name["typo"]["problem"]


def test_a_config_schema_that_is_no_draft_7_is_told_and_the_executor_listed(ao: Ao) -> None:
    description = {
        "schema_versions": ["3.0"],
        "executor": {"name": "later", "version": "1"},
        "config_schema": {"type": "object", "properties": {"model": {"type": "text"}}},
    }
    program = ao.folder / "bin" / "ao-later-exec"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\necho '{json.dumps(description)}'\n", encoding="utf-8")
    program.chmod(0o755)

    path = f"{program.parent}:/usr/bin:/bin"
    called, listed = ao("executors", PATH=path), ao("executors", "--json", PATH=path).document

    (entry,) = [item for item in listed if item["name"] == "later"]
    assert called.exit_code == 0
    assert "! the config_schema of later is no valid JSON Schema Draft-7: $.properties.model.type: " in called.stderr
    assert entry["problem"].startswith("the config_schema of later is no valid JSON Schema Draft-7")
    assert entry["description"]["executor"]["version"] == "1"


def test_without_profiles_there_is_one_table(ao: Ao) -> None:
    assert "PROFILE" not in ao("executors").stdout


def test_a_profile_is_shown_with_what_is_missing_and_no_value_of_a_secret(ao: Ao) -> None:
    called = ao("executors", "profile", str(EXAMPLE), TRACKER_TOKEN="the-value-itself")

    assert called.exit_code == 0, called.stderr
    assert called.document["environment"] == {"pass": ["HTTPS_PROXY"], "set": {"TRACKER_PROJECT": "42"}}
    assert called.document["missing_variables"] == ["HTTPS_PROXY"]
    assert "the-value-itself" not in called.stdout + called.stderr


def test_a_profile_that_its_executor_cannot_serve_is_shown_and_refused(profiles: Ao) -> None:
    called = profiles("executors", "profile", "chat")

    assert (called.exit_code, called.document["lifecycle"]) == (1, "persistent")
    assert "✗ chat: $.lifecycle: " in called.stderr


@pytest.mark.parametrize("arguments", [["--home", "other", "profile", "p"], ["profile", "p", "--home", "other"]])
def test_the_home_may_be_said_before_or_after(arguments: list[str], ao: Ao) -> None:
    (ao.folder / "other" / "profiles").mkdir(parents=True)
    ao.write("other/profiles/p.yaml", "executor: echo\n")

    assert ao("executors", *arguments).document["name"] == "p"


def test_profiles_can_be_completed(profiles: Ao) -> None:
    completed = profiles(
        _AO_COMPLETE="bash_complete", COMP_WORDS="ao executors profile t", COMP_CWORD="3", PATH="/usr/bin:/bin"
    )

    assert completed.stdout.split() == ["plain,tiny", "plain,typo"]


def test_a_sandbox_without_git_is_told_for_a_profile_with_a_worktree(ao: Ao) -> None:
    hiding = ao.write("hiding", '#!/bin/sh\n[ "$1" = git ] || exec "$@"; exit 1\n')
    hiding.chmod(0o755)
    tiny = miniature("answers_at_once")
    ao.write("mine.yaml", f"executor: {tiny}\nworkspace: worktree\nsandbox: {{command: [{hiding}]}}\n")

    called = ao("executors", "profile", "mine.yaml")

    assert called.exit_code == 1
    assert "$.sandbox.command: workspace: worktree needs git, which does not run in it" in called.stderr


def test_the_program_of_a_sandbox_is_not_taken_from_the_project(ao: Ao) -> None:
    """An agent that may write there would leave the sandbox with it."""
    program = ao.folder / "bin" / "cage"
    program.parent.mkdir()
    program.write_text('#!/bin/sh\nexec "$@"\n')
    program.chmod(0o755)
    ao.write("mine.yaml", f"executor: {miniature('answers_at_once')}\nsandbox: {{command: [cage]}}\n")

    for entry in ("bin", "", str(program.parent)):
        called = ao("executors", "profile", "mine.yaml", PATH=f"{entry}:/usr/bin:/bin")
        assert "needs 'cage', which is not on PATH outside of the project" in called.stderr
