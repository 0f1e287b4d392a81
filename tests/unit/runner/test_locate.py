"""Names and paths to executables."""

from pathlib import Path

import pytest

from ao_runner.discovery import ExecutorNotFound, list_executors, locate_executor, search_folders
from ao_runner.processes.spawn import search_path


def put(folder: Path, *names: str, mode: int = 0o755) -> Path:
    folder.mkdir(exist_ok=True)
    for name in names:
        (folder / name).write_text("#!/bin/sh\n")
        (folder / name).chmod(mode)
    return folder


def test_a_name_is_the_executable_that_carries_it(tmp_path: Path) -> None:
    folder = put(tmp_path / "bin", "ao-echo-exec", "ao-my.own-thing-exec", "ao-exec", "echo")

    assert list(list_executors([folder])) == ["echo", "my.own-thing"]
    assert locate_executor("my.own-thing", [folder]).path == folder / "ao-my.own-thing-exec"


def test_the_whole_file_name_is_understood_too(tmp_path: Path) -> None:
    folder = put(tmp_path / "bin", "ao-echo-exec")

    assert locate_executor("ao-echo-exec", [folder]).name == "echo"
    put(folder, "ao-ao-echo-exec-exec")
    assert locate_executor("ao-echo-exec", [folder]).name == "ao-echo-exec"


def test_the_bridge_for_runners_of_the_older_contract_is_not_listed(tmp_path: Path) -> None:
    put(tmp_path, "ao-http-exec")
    assert list_executors([tmp_path]) == {}
    for name in ("http", "ao-http-exec"):
        with pytest.raises(ExecutorNotFound, match="available: none"):
            locate_executor(name, [tmp_path])


def test_of_two_with_one_name_the_first_counts(tmp_path: Path) -> None:
    first, second = put(tmp_path / "a", "ao-echo-exec"), put(tmp_path / "b", "ao-echo-exec")

    assert locate_executor("echo", [first, second]).path == first / "ao-echo-exec"


def test_a_long_path_is_not_listed_for_an_executor_that_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = put(tmp_path / "bin", "ao-mine-exec")
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.delattr("os.scandir")

    assert locate_executor("mine").path == folder / "ao-mine-exec"
    assert [*search_folders()][1:] == [folder]


def test_the_folder_of_a_user_that_is_not_there_leads_nowhere() -> None:
    with pytest.raises(ExecutorNotFound, match="~nobody-of-that-name/ao-x-exec"):
        locate_executor("~nobody-of-that-name/ao-x-exec")


def test_what_cannot_be_executed_is_no_executor(tmp_path: Path) -> None:
    folder = put(tmp_path / "bin", "ao-echo-exec", mode=0o644)

    assert list_executors([folder, tmp_path / "is-not-there"]) == {}
    with pytest.raises(ExecutorNotFound):
        locate_executor("echo", [folder])


def test_what_people_call_an_agent_means_its_usual_executor(tmp_path: Path) -> None:
    folder = put(tmp_path / "bin", "ao-claude-acp-exec", "ao-claude-code-exec")

    with pytest.raises(ExecutorNotFound, match="Did you mean 'claude-code'"):
        locate_executor("claude", [folder])


def test_a_path_is_used_as_it_is(tmp_path: Path) -> None:
    folder = put(tmp_path / "bin", "mine.sh")

    executor = locate_executor(str(folder / "mine.sh"), [])

    assert (executor.name, executor.path) == ("mine", folder / "mine.sh")


def test_an_unknown_name_says_which_there_are(tmp_path: Path) -> None:
    folder = put(tmp_path / "bin", "ao-echo-exec", "ao-scripted-exec")

    with pytest.raises(ExecutorNotFound) as caught:
        locate_executor("ecko", [folder])

    assert "available: echo, scripted. Did you mean 'echo'?" in str(caught.value)


def test_a_path_that_leads_nowhere_says_what_to_check() -> None:
    with pytest.raises(ExecutorNotFound, match="/no/such is not an executable file"):
        locate_executor("/no/such", [])


def test_no_program_is_looked_for_where_an_agent_may_write(tmp_path: Path) -> None:
    project, elsewhere = tmp_path / "project", tmp_path / "elsewhere"
    (project / "bin").mkdir(parents=True)
    elsewhere.symlink_to(project / "bin")
    path = f":bin:./bin:/usr/bin:{project}/bin:{project}:{elsewhere}:{project}-2"

    assert search_path({"PATH": path}, str(project)) == f"/usr/bin:{project}-2"
    assert search_path({"PATH": path}) == f"/usr/bin:{project}/bin:{project}:{elsewhere}:{project}-2"
    assert search_path({"PATH": "bin"}) == "/dev/null"
