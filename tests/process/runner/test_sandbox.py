"""Executors behind the command of a sandbox: it gets the run's folders, streams pass, and nothing falls back."""

import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from ao_runner.profiles import Profile, Sandbox, Warm
from tests.process.runner.performing import IMPATIENT, MINIATURES, Performed, perform
from tests.process.runner.warm.test_warm import House, in_house, scripted, until

DOING = "does_what_its_prompt_says"
BWRAP = [
    "bwrap", "--ro-bind", "/", "/", "--bind", "{project_dir}", "{project_dir}", "--bind", "{tmp}", "{tmp}",
    "--dev", "/dev", "--proc", "/proc", "--unshare-pid", "--die-with-parent", "--",
]  # fmt: skip


def require_bwrap() -> None:
    """Skip the test that is running where bwrap cannot run, and say why."""
    if reason := _reason_against_bwrap():
        pytest.skip(reason)


@cache
def _reason_against_bwrap() -> str:
    if shutil.which("bwrap") is None:
        return "bwrap is not on PATH; .ci/toolchains installs it on Debian, as root"
    tried = subprocess.run([*BWRAP[:4], *BWRAP[10:], "true"], capture_output=True, text=True, check=False)
    return "" if tried.returncode == 0 else f"bwrap exits with {tried.returncode} here: {tried.stderr.strip()}"


@pytest.fixture
def bwrap() -> list[str]:
    require_bwrap()
    return BWRAP


def script(folder: Path, text: str) -> str:
    path = folder / "sandbox"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


def perform_in(command: list[str], miniature: str, folder: Path, **given: Any) -> Performed:
    profile = Profile(name="confined", executor=str(MINIATURES / f"{miniature}.py"), sandbox=Sandbox(command=command))
    return perform(miniature, folder, profile=profile, **given)


def test_the_command_gets_the_folders_of_the_run_and_starts_the_executor(tmp_path: Path) -> None:
    command = [script(tmp_path, 'export GIVEN="$1 $2 $3"; shift 3; exec "$@"'), "{project_dir}", "h={home}", "{tmp}"]
    prompt = '[ "$GIVEN" = "$PWD h=$HOME $TMPDIR" ] && echo yes'

    performed = perform_in(command, DOING, tmp_path, parameters={"prompt": prompt})

    assert performed.result.result_text == "yes"
    assert performed.record.argv == (*command, str(MINIATURES / f"{DOING}.py"))


def test_bwrap_lets_the_agent_write_to_its_folders_only(bwrap: list[str], tmp_path: Path) -> None:
    prompt = f"echo x > mine; echo x > $TMPDIR/mine; echo x > {tmp_path}/other 2>/dev/null || echo refused"

    performed = perform_in(bwrap, DOING, tmp_path, parameters={"prompt": prompt})

    assert performed.result.result_text == "refused"
    assert [path.name for path in (tmp_path / "project").iterdir()] == ["mine"]
    assert not (tmp_path / "other").exists()


@pytest.mark.thorough
def test_a_cancelled_agent_hears_of_it_through_bwrap(bwrap: list[str], tmp_path: Path) -> None:
    performed = perform_in(bwrap, "works_for_ever", tmp_path, stop_on="heartbeat")

    assert performed.failure.error.message == "asked because of: user"
    assert performed.record.stop_actions == ("ask", "close_stdin")


@pytest.mark.thorough
@pytest.mark.parametrize("containment", ["process_group", "lifeline"])
def test_an_agent_in_bwrap_that_ignores_everything_is_killed(
    bwrap: list[str], tmp_path: Path, containment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`perform` checks that no process is left."""
    monkeypatch.setenv("AO_CONTAINMENT", containment)

    performed = perform_in(bwrap, "ignores_sigterm", tmp_path, stop_on="run_started", grace_periods=IMPATIENT)

    assert performed.failure.error.type in {"cancelled", "cancel_timeout"}
    assert "terminate" in performed.record.stop_actions


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        (
            ["no-such-sandbox", "--"],
            "the sandbox of the profile 'confined' needs 'no-such-sandbox', which is not on PATH",
        ),
        (["FAILING", "--"], "it ended with 3: no user namespaces here. Run it:"),
    ],
    ids=["not installed", "cannot run here"],
)
def test_a_run_whose_sandbox_cannot_run_is_refused(tmp_path: Path, command: list[str], reason: str) -> None:
    if command[0] == "FAILING":
        command = [script(tmp_path, "echo no user namespaces here >&2; exit 3"), *command[1:]]

    performed = perform_in(command, DOING, tmp_path, parameters={"prompt": "touch ran"})

    assert (performed.failure.error.type, performed.failure.error.side_effects) == ("dependency_missing", "none")
    assert reason in performed.failure.error.message
    assert not (tmp_path / "project" / "ran").exists()


@pytest.mark.thorough
def test_an_executor_that_the_sandbox_hides_is_a_refusal_with_the_words_of_the_sandbox(
    bwrap: list[str], tmp_path: Path
) -> None:
    command = [*bwrap[:-1], "--tmpfs", str(MINIATURES), "--"]

    performed = perform_in(command, DOING, tmp_path, parameters={"prompt": "true"})

    assert performed.failure.error.type == "dependency_missing"
    assert f"{DOING}.py: No such file or directory" in performed.failure.error.message


@pytest.mark.thorough
def test_a_process_that_waits_without_the_sandbox_gets_no_run_of_it(tmp_path: Path) -> None:
    async def story(house: House) -> None:
        plain, sandbox = house.profile, Sandbox(command=[script(tmp_path, 'exec "$@"')])
        await house.perform(house.session("ses_1"))
        await until(lambda: bool(house.launcher.parked))
        (unconfined,) = house.launcher.parked
        house.profile = plain.model_copy(update={"sandbox": sandbox})

        _, confined = await house.perform(house.session("ses_2"))
        await until(lambda: any(one is not unconfined for one in house.launcher.parked))
        house.profile = plain
        _, free = await house.perform(house.session("ses_3"))

        assert (confined.launched, free.launched) == ("cold", "cold")

    in_house(tmp_path, scripted(warm=Warm(size=1)), story)
