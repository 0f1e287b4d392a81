"""What a failure advises: the variable of a key that is missing, and the permission of a program."""

from pathlib import Path

import pytest

from ao_executors.core.executor import RunFailed
from ao_executors.core.executor_process import missing_key
from ao_executors.core.program import find_executable

SECRETS = ["OPENAI_API_KEY", "CODEX_API_KEY", "CODEX_TOKEN", "CODEX_PASSPHRASE"]


def test_a_login_that_fails_without_a_key_names_the_variables() -> None:
    told = "; no key is set: export OPENAI_API_KEY=… (or CODEX_API_KEY, CODEX_TOKEN) before the run"

    assert missing_key(SECRETS, "401 Unauthorized", {"HOME": "/root"}) == told
    assert (
        missing_key(SECRETS[:1], "Please run /login", {}) == "; no key is set: export OPENAI_API_KEY=… before the run"
    )


@pytest.mark.parametrize(
    ("secrets", "message", "environ"),
    [(SECRETS, "refused", {"CODEX_TOKEN": "x"}), (SECRETS, "set OPENAI_API_KEY", {}), ([], "refused", {})],
    ids=["a key is set", "it is named already", "the executor has none"],
)
def test_a_login_that_fails_otherwise_is_told_as_it_is(
    secrets: list[str], message: str, environ: dict[str, str]
) -> None:
    assert missing_key(secrets, message, environ) == ""


def test_a_program_that_is_not_executable_is_told_from_one_that_is_not_there(tmp_path: Path) -> None:
    (tmp_path / "answer.sh").write_text("#!/bin/sh\n")

    with pytest.raises(RunFailed, match=r"answer\.sh is not executable; chmod \+x \./answer\.sh"):
        find_executable("./answer.sh", tmp_path, "program", "install it")
    with pytest.raises(RunFailed, match=r"there is no such executable in /.*; install it"):
        find_executable("./other.sh", tmp_path, "program", "install it")
