"""What an executor says without performing a run."""

import subprocess
from pathlib import Path

import pytest

from ao_executors import VERSION
from ao_protocol.documents import parse_description
from tests.process.executors.driver import WAIT_SECONDS, installed
from tests.process.executors.homemade import homemade

NAMES = ["echo", "scripted", "procedural", "claude-code"]


def call(argv: list[str], *arguments: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [*argv, *arguments], stdin=subprocess.DEVNULL, capture_output=True, env=env, timeout=WAIT_SECONDS, check=False
    )


def program(name: str) -> list[str]:
    return [installed(f"ao-{name}-exec")]


@pytest.mark.requirement("AOX-120", "AOX-121", "AOX-124")
@pytest.mark.parametrize("name", NAMES)
def test_describe_needs_nothing(name: str) -> None:
    said = call(program(name), "describe", env={})

    assert said.returncode == 0
    assert said.stdout.count(b"\n") == 1
    assert parse_description(said.stdout).executor.name == name


@pytest.mark.parametrize("argument", ["--help", "-h"])
def test_help_is_on_stderr_and_waits_for_no_input(argument: str) -> None:
    with subprocess.Popen(
        [*program("echo"), argument], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.wait(WAIT_SECONDS) == 0
        stdout, stderr = process.communicate()

    assert stdout == b""
    assert b"usage: ao-echo-exec" in stderr


def test_the_version_is_printed() -> None:
    assert call(program("echo"), "--version").stdout == f"ao-echo-exec {VERSION}\n".encode()


@pytest.mark.requirement("AOX-109")
@pytest.mark.parametrize("arguments", [["--loud"], ["run"], ["describe", "me"], ["check"]], ids=" ".join)
def test_a_bad_command_line_is_exit_2_and_help(arguments: list[str]) -> None:
    said = call(program("echo"), *arguments)

    assert (said.returncode, said.stdout) == (2, b"")
    assert f"unknown arguments: {' '.join(arguments)}" in said.stderr.decode()
    assert b"usage: ao-echo-exec" in said.stderr


def test_a_description_that_is_none_is_noticed_at_once(tmp_path: Path) -> None:
    said = call(homemade(tmp_path, "return done", cancel="sometimes"), "describe")

    assert said.returncode != 0
    assert b"capabilities.cancel" in said.stderr
