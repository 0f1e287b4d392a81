"""The commands below `ao conformance`: what they refuse, what they write, and how they end."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from ao_conformance.cli.group import command as conformance
from ao_conformance.cli.suites import LOOKED_AT, PATIENCE_SECONDS, absolute, with_patience_told
from ao_conformance.driver.transcript import complaint
from ao_conformance.vectors import load_process_vectors
from ao_conformance.verdict import Finding, Lateness, Verdict
from ao_model_simulator.cli import command as model_sim
from tests.conformance.reports.results import result_of
from tests.process.executors.driver import installed

MINIATURES = Path(__file__).parents[1] / "miniatures"
AO = installed("ao")
ECHO = installed("ao-echo-exec")
GOOD = f'exec {ECHO} "$@"'
WRONG = f'exec {sys.executable} {MINIATURES / "exits_wrong_code.py"} "$@"'
START = ["run", "--only", "start"]


def program(path: Path, body: str) -> str:
    path.write_text(f"#!/bin/sh\n{body}\n", encoding="utf-8")
    path.chmod(0o755)
    return str(path)


@pytest.mark.parametrize(
    ("file", "why"),
    [
        ("folder", "folder is a directory; name a file in it, such as folder/report.json"),
        ("new/", "new/ is a directory; name a file in it, such as new/report.json"),
        ("text/report.json", "text/report.json cannot be written: Not a directory"),
    ],
    ids=["a directory", "a slash", "a folder that is a file"],
)
@pytest.mark.parametrize("suite", [START, ["codec"], ["runner"]], ids=["run", "codec", "runner"])
def test_a_report_that_cannot_be_written_is_refused_before_anything_is_played(
    suite: list[str], file: str, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    (tmp_path / "text").touch()
    played = tmp_path / "played"

    told = CliRunner().invoke(
        conformance, [*suite, "--report", f"json={file}", "--", "touch", str(played), "{executor}"]
    )

    assert (told.exit_code, why in told.output) == (2, True), told.output
    assert not played.exists()


@pytest.mark.parametrize("file", ["report", "-"])
def test_two_reports_in_one_file_are_refused(file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    told = CliRunner().invoke(
        conformance, [*START, "--report", f"json={file}", "--report", f"junit={file}", "--", "touch", "played"]
    )

    assert told.exit_code == 2
    assert f"2 reports go to {'stdout' if file == '-' else file}; give each a file of its own" in told.output
    assert not (tmp_path / "played").exists()


def test_folders_of_a_report_are_created_with_it_and_not_before(tmp_path: Path) -> None:
    report = tmp_path / "new" / "deep" / "report.json"
    asked = [*START, "--report", f"json={report}"]

    CliRunner().invoke(conformance, [*asked, "--list"])
    assert not list(tmp_path.iterdir())

    assert CliRunner().invoke(conformance, [*asked, "--", ECHO]).exit_code == 0
    assert json.loads(report.read_text(encoding="utf-8"))["verdict"] == "pass"


@pytest.mark.parametrize(("body", "code"), [(GOOD, 2), (WRONG, 1)], ids=["conforms", "does not conform"])
def test_a_report_that_fails_at_the_end_takes_nothing_else_with_it(body: str, code: int, tmp_path: Path) -> None:
    lost, kept = tmp_path / "lost.json", tmp_path / "kept.json"
    command = program(tmp_path / "ao-odd-exec", f"mkdir -p {lost}\n{body}")

    told = CliRunner().invoke(
        conformance, [*START, "--report", f"json={lost}", "--report", f"json={kept}", "--", command]
    )

    assert told.exit_code == code
    assert "AO executor protocol 3.0, standard: " in told.stdout
    assert f"Error: cannot write the report '{lost}': Is a directory" in told.stderr
    assert json.loads(kept.read_text(encoding="utf-8"))["requirements"]


@pytest.mark.parametrize(
    ("is_full", "code", "said"),
    [(True, 2, "Error: stdout cannot be written: No space left on device\n"), (False, 0, "")],
    ids=["full", "nobody reads"],
)
def test_a_result_that_cannot_be_printed_takes_no_report_with_it(
    is_full: bool, code: int, said: str, tmp_path: Path
) -> None:
    report = tmp_path / "report.json"
    reading, writing = os.pipe()
    os.close(reading)
    with Path("/dev/full").open("wb") as full, os.fdopen(writing, "wb") as broken:
        done = subprocess.run(
            [AO, "conformance", *START, "--report", f"json={report}", "--", ECHO],
            stdout=full if is_full else broken,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
            check=False,
        )

    assert (done.returncode, done.stderr) == (code, said)
    assert json.loads(report.read_text(encoding="utf-8"))["verdict"] == "pass"


def test_smoke_waits_for_no_vector_longer_than_its_patience() -> None:
    vectors = [vector for vector in load_process_vectors() if vector.id in LOOKED_AT]

    assert {vector.id for vector in vectors} == LOOKED_AT
    for vector in vectors:
        most = PATIENCE_SECONDS + vector.works_for_seconds
        assert vector.hurried(most).within_seconds == min(most, vector.within_seconds)


def test_smoke_says_of_what_it_waited_for_in_vain_that_run_waits_longer(tmp_path: Path) -> None:
    waits = program(tmp_path / "ao-waits-exec", f"[ $# = 1 ] && exec {ECHO} describe\ncat >/dev/null")

    told = CliRunner().invoke(conformance, ["smoke", "--", waits])

    assert told.exit_code == 1
    assert "killed after 4 s" in told.stdout
    assert "smoke waits 4 s here, ao conformance run 30 s" in told.stdout


@pytest.mark.parametrize(
    ("vector", "lateness", "seconds", "hint"),
    [
        ("start", Lateness.END, 4.1, "smoke waits 4 s here, ao conformance run 30 s"),
        ("start", Lateness.KILLED, 4.1, "smoke waits 4 s here, ao conformance run 30 s"),
        ("flush", Lateness.END, 7.0, "smoke waits 6.5 s here, ao conformance run 30 s"),
        ("start", None, 4.1, ""),
        ("start", Lateness.EXIT, 7.5, ""),
        ("start", Lateness.END, 0.2, ""),
        ("sigterm-1", Lateness.END, 9.0, ""),
    ],
    ids=[
        "says nothing",
        "does not end",
        "works too long",
        "another fault",
        "stays behind its end",
        "ends at once",
        "waited for as long by both",
    ],
)
def test_smoke_speaks_of_its_patience_where_that_decided(
    vector: str, lateness: Lateness | None, seconds: float, hint: str
) -> None:
    patient = next(one for one in load_process_vectors() if one.id == vector)
    finding = Finding("AOX-040", "events", "none", lateness=lateness)
    result = replace(result_of(patient, Verdict.FAIL, "", finding), seconds=seconds)

    assert with_patience_told(result, patient).hint == hint


def test_smoke_passes_on_a_base_and_variables_and_its_line_does_so_again(tmp_path: Path) -> None:
    base, seen = tmp_path / "base.json", tmp_path / "seen"
    base.write_text('{"executor_config": {"greeting": "hello"}}', encoding="utf-8")
    body = f'[ $# = 1 ] && exec {ECHO} describe\nread -r line\necho "$SETTING $line" >>{seen}\nexit 1'
    command = program(tmp_path / "ao-curious-exec", body)

    told = CliRunner().invoke(conformance, ["smoke", "--base", str(base), "--env", "SETTING=given", "--", command])

    setting, _, invocation = seen.read_text(encoding="utf-8").splitlines()[0].partition(" ")
    assert (setting, json.loads(invocation)["executor_config"]) == ("given", {"greeting": "hello"})
    assert f"ao conformance run --level core --base {base} --env SETTING=given --only start" in told.stdout


@pytest.mark.parametrize(
    ("holds", "typed", "said"),
    [
        (["ao-mine-exec"], "./mine", "./mine is a directory; its executable is ./mine/ao-mine-exec"),
        (["ao-mine-exec"], "mine", "mine is a directory; its executable is ./mine/ao-mine-exec"),
        (["ao-a-exec", "ao-b-exec"], "mine/", "name one of its executables: mine/ao-a-exec, mine/ao-b-exec"),
        ([], "./mine", "./mine is a directory; name the program that it should start"),
    ],
    ids=["one executable", "without a slash", "two executables", "none"],
)
def test_a_directory_leads_to_its_executable(
    holds: list[str], typed: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "ao-notes-exec").write_text("not executable", encoding="utf-8")
    for name in holds:
        program(tmp_path / "mine" / name, GOOD)

    told = CliRunner().invoke(conformance, ["run", "--", typed])

    assert (told.exit_code, said in told.output) == (2, True), told.output


def test_what_names_something_here_can_be_started_from_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine.py").touch()

    command = absolute(["python", "mine.py", "./mine", "mine", "./other"])

    assert command == ("python", str(tmp_path / "mine.py"), str(tmp_path / "mine"), "mine", "./other")


def test_a_program_here_that_was_named_without_its_folder_is_pointed_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    program(tmp_path / "ao-mine-exec", GOOD)

    told = CliRunner().invoke(conformance, ["run", "--", "ao-mine-exec"])

    assert "there is no such command; the file in this directory is ./ao-mine-exec" in told.output


NODE = b"""node:internal/modules/cjs/loader:1210
  throw err;
  ^

Error: Cannot find module '/x/missing.js'
    at Module._resolveFilename (node:internal/modules/cjs/loader:1207:15) {
  code: 'MODULE_NOT_FOUND'
}

Node.js v20.20.2
"""
THROWN = b"""/x/mine.js:3
    throw new Error("no configuration");
    ^

TypeError: no configuration
    at Object.<anonymous> (/x/mine.js:3:11)
"""
PYTHON = b"""Traceback (most recent call last):
  File "/x/mine.py", line 1, in <module>
    raise ValueError("x")
ValueError: x
"""
PERL = b"""Can't locate JSON.pm in @INC (you may need to install it) at mine.pl line 1.
BEGIN failed--compilation aborted at mine.pl line 1.
"""
RUST = b"""thread 'main' panicked at src/main.rs:2:5:
no configuration
note: run with `RUST_BACKTRACE=1` environment variable to display a backtrace
"""
GO = b"panic: no configuration\n\ngoroutine 1 [running]:\nmain.main()\nexit status 2\n"
SHELL = b"starting\nmine: line 3: jq: command not found\n"


@pytest.mark.parametrize(
    ("stderr", "said"),
    [
        (NODE, "Error: Cannot find module '/x/missing.js'"),
        (THROWN, "TypeError: no configuration"),
        (PYTHON, "ValueError: x"),
        (PERL, "Can't locate JSON.pm in @INC (you may need to install it) at mine.pl line 1."),
        (RUST, "thread 'main' panicked at src/main.rs:2:5: no configuration"),
        (GO, "panic: no configuration"),
        (SHELL, "mine: line 3: jq: command not found"),
        (b"\xff\n\n", "\\xff"),
        (b"\n", ""),
    ],
    ids=["node", "thrown", "python", "perl", "rust", "go", "shell", "no UTF-8", "nothing"],
)
def test_of_a_long_complaint_the_line_that_says_why_is_told(stderr: bytes, said: str) -> None:
    assert complaint(stderr) == said


def test_an_interpreter_that_finds_no_program_is_quoted_with_its_reason(tmp_path: Path) -> None:
    complains = program(tmp_path / "ao-gone-exec", "printf 'Error: Cannot find module\\n\\nNode.js v20\\n' >&2; exit 1")

    told = CliRunner().invoke(conformance, [*START, "--only", "describe", "--", complains])

    assert "stderr: Error: Cannot find module" in " ".join(told.stdout.split())


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["run"], "must agree. [default: 1; 1<=x<=1000]"),
        (["run"], "random delays. [default: 1]"),
        (["run"], "Missing folders are created"),
        (["smoke"], "concurrently. [default: 6; 1<=x<=64]"),
        (["smoke"], "130 interrupted"),
        (["codec"], "130 interrupted"),
        (["runner"], "130 interrupted"),
    ],
    ids=["repeat", "seed", "report", "jobs", "smoke", "codec", "runner"],
)
def test_the_help_names_defaults_and_every_exit_code(arguments: list[str], said: str) -> None:
    told = CliRunner().invoke(conformance, [*arguments, "--help"])

    assert said in " ".join(told.output.split())


def test_the_help_of_the_model_simulator_has_examples() -> None:
    told = CliRunner().invoke(model_sim, ["--help"])

    assert "ao model-sim --check answers.yaml" in told.output
