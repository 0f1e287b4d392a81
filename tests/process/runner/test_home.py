"""The home of a user: what stands in it is nobody else's, whatever the umask."""

import subprocess
from pathlib import Path

import pytest

from tests.process.runner.cli.calling import SECONDS, Ao

pytestmark = pytest.mark.thorough  # each test starts many processes

QUEUE = ("submit", "agent.yaml", "-p", "x", "--profile", "echo")
COMMANDS = (("run", "agent.yaml", "-p", "x", "--executor", "echo"), QUEUE, ("worker", "--until-idle"))


def call_with_umask_0(ao: Ao, *arguments: str) -> str:
    done = subprocess.run(
        ao.argv(*arguments), umask=0,
        cwd=ao.folder, env=ao.environment(), stdin=subprocess.DEVNULL, capture_output=True, text=True,
        timeout=SECONDS, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stderr


def open_to_others(home: Path) -> list[str]:
    return [str(path) for path in (home, *home.rglob("*")) if path.lstat().st_mode & 0o077]


def test_nothing_in_the_home_is_open_to_others(tmp_path: Path) -> None:
    ao = Ao(tmp_path)
    ao.write("agent.yaml", "name: agent\n")
    for arguments in COMMANDS:
        call_with_umask_0(ao, *arguments)

    home = tmp_path / "ao-home"
    assert {"belongings", "outboxes", "owners", "ao.sqlite3"} <= {path.name for path in home.iterdir()}
    assert open_to_others(home) == []


def test_a_home_that_others_can_write_is_repaired_and_told_once(tmp_path: Path) -> None:
    ao, home = Ao(tmp_path), tmp_path / "elsewhere"
    ao.write("agent.yaml", "name: agent\n")
    for folder in (home, home / "outboxes", home / "belongings", home / "owners", home / "bells"):
        folder.mkdir()
        folder.chmod(0o777)
    (tmp_path / "ao-home").symlink_to(home)

    told = [call_with_umask_0(ao, *arguments) for arguments in COMMANDS]

    assert [text.count("others could write to") for text in told] == [1, 0, 0]
    assert open_to_others(home) == []


def test_a_folder_that_users_share_is_refused_as_a_home(tmp_path: Path) -> None:
    ao, home = Ao(tmp_path), tmp_path / "ao-home"
    home.mkdir()
    home.chmod(0o1777)

    for arguments in (("sessions",), ("doctor",)):
        called = ao(*arguments)
        assert called.exit_code != 0
        assert f"others can write to {home} (mode 1777" in called.stdout + called.stderr
    assert list(home.iterdir()) == []
