"""The suite, played at executors of this project and at miniatures that are broken on purpose."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ao_conformance.reports.overview import headline
from ao_conformance.suite import Plan, run_suite
from ao_conformance.vectors import load_process_vectors
from ao_conformance.verdict import Reason, SuiteResult, Verdict
from tests.mounting import UNSHARED, require_mounts
from tests.process.executors.driver import installed, wait_until

MINIATURES = Path(__file__).parents[1] / "miniatures"
AO = installed("ao")
ECHO = installed("ao-echo-exec")
PROCEDURAL = installed("ao-procedural-exec")

BROKEN = {
    "prints_garbage": "AOX-190",
    "two_terminals": "AOX-092",
    "speaks_after_its_end": "AOX-092",
    "skips_a_seq": "AOX-071",
    "repeats_a_seq": "AOX-071",
    "exits_wrong_code": "AOX-110",
    "names_another_run": "AOX-073",
    "begins_with_a_message": "AOX-090",
    "ends_without_terminal": "AOX-092",
    "stops_mid_line": "AOX-092",
    "hangs_after_terminal": "AOX-193",
    "leaves_a_grandchild_outside_its_group": "AOX-193",
    "line_too_long": "AOX-028",
    "crashes_by_signal": "AOX-092",
    "never_starts": "AOX-040",
}
AWAITED = {"hangs_after_terminal", "leaves_a_grandchild_outside_its_group", "never_starts"}
"""For these the suite waits up to a minute."""


def play(command: str, *ids: str, level: str = "standard") -> SuiteResult:
    vectors = [vector for vector in load_process_vectors() if vector.id in ids]
    return run_suite(Plan(command=(command,), level=level, vectors=vectors))


def script(folder: Path, body: str) -> str:
    program = folder / "ao-script-exec"
    program.write_text(f"#!/usr/bin/env bash\n{body}\n", encoding="utf-8")
    program.chmod(0o755)
    return str(program)


def broken(result: SuiteResult) -> set[str]:
    return {rule.id for rule in result.requirements if rule.verdict in {Verdict.FAIL, Verdict.UNTESTABLE}}


def ao(*arguments: str, cwd: Path | None = None) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [AO, "conformance", *arguments], capture_output=True, text=True, timeout=100, check=False, cwd=cwd
    )


@pytest.mark.parametrize(
    ("name", "requirement"),
    [
        pytest.param(name, requirement, id=name, marks=pytest.mark.slow if name in AWAITED else ())
        for name, requirement in BROKEN.items()
    ],
)
def test_a_broken_executor_is_told_its_rule(name: str, requirement: str, tmp_path: Path) -> None:
    program = tmp_path / name
    program.write_text(f'#!/bin/sh\nexec {sys.executable} {MINIATURES / f"{name}.py"} "$@"\n', encoding="utf-8")
    program.chmod(0o755)

    assert requirement in broken(play(str(program), "start"))


def test_a_good_executor_breaks_nothing() -> None:
    result = play(ECHO, "start", "describe", "crlf", "version-unspoken-major", "cancel-at-once")

    assert (broken(result), result.exit_code) == (set(), 0)


def test_a_flood_without_end_is_not_read_to_its_end(tmp_path: Path) -> None:
    line = '{"event_type":"log","session_id":"ses_1","run_id":"run_1","seq":1,"level":"info","message":"x"}'
    program = tmp_path / "ao-flood-exec"
    program.write_text(f"#!/bin/sh\n[ $# = 1 ] && exec {ECHO} describe\nread -r asked\nexec yes '{line}'\n")
    program.chmod(0o755)

    result = play(str(program), "start")

    assert [found.verdict for found in result.vectors] == [Verdict.UNTESTABLE]
    assert "nothing was read any more" in result.vectors[0].findings[0].found
    assert len(result.vectors[0].transcript) < 3_000


def test_a_line_without_end_is_not_read_to_its_end(tmp_path: Path) -> None:
    program = tmp_path / "ao-endless-exec"
    program.write_text(f"#!/bin/sh\n[ $# = 1 ] && exec {ECHO} describe\nread -r asked\nyes | tr -d '\\n'\n")
    program.chmod(0o755)

    result = play(str(program), "start")

    assert broken(result) >= {"AOX-028"}
    assert "none in the first" in result.vectors[0].findings[0].found


@pytest.mark.parametrize(
    ("text", "first", "why"),
    [
        ("exit 3", "AOX-120: nothing on stdout, exit 3", "describe gave no description"),
        ("echo oops >&2; exit 1", "AOX-120: nothing on stdout, exit 1; stderr: oops", "describe gave no description"),
        (
            f'[ "$*" = describe ] && exec {ECHO} describe; echo usage >&2; exit 2',
            "AOX-090: no event came",
            "no run begins",
        ),
    ],
    ids=["silent", "complains", "describes itself only"],
)
def test_where_no_run_begins_only_that_is_told(text: str, first: str, why: str, tmp_path: Path) -> None:
    program = tmp_path / "ao-empty-exec"
    program.write_text(f"#!/bin/sh\n{text}\n")
    program.chmod(0o755)

    result = play(str(program), *(vector.id for vector in load_process_vectors()))

    failed = [finding for vector in result.vectors for finding in vector.findings if finding.verdict is Verdict.FAIL]
    assert f"{failed[0].requirement}: {failed[0].found}" == first
    assert result.executed < 20
    assert f"not played, since {why}" in headline(result)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT], ids=lambda number: number.name)
def test_a_suite_that_is_told_to_stop_leaves_nothing_behind(number: signal.Signals, tmp_path: Path) -> None:
    program, pids = tmp_path / "ao-stubborn-exec", tmp_path / "pids"
    describe = f"[ $# = 1 ] && exec {ECHO} describe\n"
    program.write_text(f"#!/bin/sh\n{describe}trap '' TERM HUP\necho $$ >>{pids}\nwhile :; do sleep 0.1; done\n")
    program.chmod(0o755)
    argv = [AO, "conformance", "run", "--only", "start", "--", str(program)]
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment) as suite:
        wait_until(lambda: pids.exists() and pids.read_text().endswith("\n"))
        for _ in range(100):  # `timeout` sends it twice, to the program and to its group; people press more than once
            suite.send_signal(number)
        stdout, _ = suite.communicate(timeout=60)

    assert suite.returncode == 130
    assert "interrupted before it was over" in stdout
    assert not [pid for pid in pids.read_text().split() if Path("/proc", pid).exists()]
    assert not list(tmp_path.glob("ao-conformance-*"))


@pytest.mark.parametrize(
    ("text", "mode", "why"),
    [
        (None, 0, "there is no such file"),
        ("", 0o644, "it is not executable; try: chmod +x "),
        ("hello", 0o755, "it is neither a program for this machine nor a script"),
        ("#!/no/such/interpreter\n", 0o755, "the interpreter in its #! line does not exist"),
    ],
    ids=["missing", "not executable", "text", "no interpreter"],
)
def test_what_cannot_be_started_is_told_with_its_reason(text: str | None, mode: int, why: str, tmp_path: Path) -> None:
    program = tmp_path / "ao-odd-exec"
    if text is not None:
        program.write_text(text)
        program.chmod(mode)

    done = ao("run", "--", str(program))

    assert done.returncode == 2
    assert f"{program} cannot be started: {why}" in done.stderr


def test_what_is_not_declared_does_not_apply() -> None:
    result = play(ECHO, "resume", "start")

    assert {vector.id: vector.verdict for vector in result.vectors} == {
        "resume": Verdict.NOT_APPLICABLE,
        "start": Verdict.PASS,
    }


@pytest.mark.parametrize(
    ("command", "right", "wrong", "vector", "rule"),
    [
        (ECHO, "Grüße", "Gruesse", "prompt-reaches-the-model", "AOX-144"),
        (ECHO, "&lt;", "<", "inputs-block-closed-by-a-value", "AOX-151"),
        (ECHO, r"\\n  ", r"\\n", "inputs-block-forged-field", "AOX-152"),
        (PROCEDURAL, '"verdict":"yes"', '"verdict":"no"', "command-that-fits", "AOX-176"),
        (PROCEDURAL, "schema_validation_failed", "output_&", "command-that-does-not-fit", "AOX-174"),
    ],
    ids=["a prompt", "a tag", "a forged field", "an answer that fits", "an answer that does not"],
)
def test_an_executor_without_a_model_is_judged_by_what_it_says(
    command: str, right: str, wrong: str, vector: str, rule: str, tmp_path: Path
) -> None:
    altered = script(tmp_path, f"set -o pipefail\n{command} \"$@\" | sed -u 's/{right}/{wrong}/g'")

    assert (broken(play(command, vector)), broken(play(altered, vector))) == (set(), {rule})


def test_noise_that_is_nowhere_to_be_seen_shows_nothing(tmp_path: Path) -> None:
    result = play(script(tmp_path, f'unset AO_CONFORM_NOISE\nexec {ECHO} "$@"'), "noise")

    assert [(found.verdict, found.reason) for found in result.vectors] == [
        (Verdict.NEVER_EXERCISED, "AO_CONFORM_NOISE (SPEC 12) has no effect: 'noise' is not on stderr")
    ]


def test_the_standard_level_is_not_asked_of_who_claims_core() -> None:
    assert play(ECHO, "wrong-config", "deadline", level="core").executed == 0


def test_a_program_that_is_no_executor_fails_and_is_no_fault_of_the_suite() -> None:
    result = play("/bin/true", "start", "describe")

    assert (result.verdict, broken(result)) == (Verdict.FAIL, {"AOX-120"})


def test_nothing_that_was_played_is_no_success() -> None:
    called = ao("run", "--only", "resume", "--", ECHO)

    assert (called.returncode, "no vector was played" in called.stdout) == (3, True)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["run"], "Missing CMD"),
        (["smoke"], "Missing CMD: write it after --, as in: ao conformance smoke -- ./ao-mine-exec"),
        (["run", "--", "./not-there"], "cannot be started"),
        (["run", "--only", "no-such-rule", "--", "true"], "neither a requirement nor a vector"),
        (["run", "--report", "pdf=x", "--", "true"], "KIND=FILE"),
        (["run", "--env", "NAME", "--", "true"], "NAME=VALUE"),
        (["explain"], "Missing ID: name a requirement or a vector"),
        (["explain", "AOX-19"], "near to it are"),
        (["explain", "foo"], "no requirement 'foo'"),
    ],
    ids=[
        "no command",
        "nothing to smoke",
        "no such program",
        "no such rule",
        "no such report",
        "no value",
        "nothing to explain",
        "No vector has this id",
        "as it was asked",
    ],
)
def test_a_bad_command_line_is_told_and_exits_2(arguments: list[str], told: str, tmp_path: Path) -> None:
    called = ao(*arguments, cwd=tmp_path)

    assert called.returncode == 2
    assert told in called.stderr


def test_a_known_failure_does_not_fail_the_run_and_one_that_passes_does(tmp_path: Path) -> None:
    program = tmp_path / "ao-wrong-exec"
    program.write_text(
        f'#!/bin/sh\nexec {sys.executable} {MINIATURES / "exits_wrong_code.py"} "$@"\n', encoding="utf-8"
    )
    program.chmod(0o755)
    listed = tmp_path / "known.txt"
    listed.write_text("AOX-110  # its exit code\n", encoding="utf-8")
    known = ["run", "--known-failing", str(listed), "--only", "start", "--"]

    assert ao("run", "--only", "start", "--", str(program)).returncode == 1
    assert ao(*known, str(program)).returncode == 0
    stale = ao(*known, ECHO)
    assert (stale.returncode, "AOX-110" in stale.stdout) == (1, True)


def test_the_line_that_reproduces_a_failure_does_so(tmp_path: Path) -> None:
    report, program = tmp_path / "report.json", tmp_path / "ao-wrong-exec"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} {MINIATURES / "exits_wrong_code.py"} "$@"\n')
    program.chmod(0o755)
    ao("run", "--only", "start", "--report", f"json={report}", "--", str(program))
    (vector,) = json.loads(report.read_text(encoding="utf-8"))["vectors"]

    again = subprocess.run(
        ["/bin/sh", "-c", vector["reproduce"].replace("ao ", f"{AO} ", 1)],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )

    assert (again.returncode, "AOX-110" in again.stdout) == (1, True)


def test_every_rule_and_every_vector_can_be_explained() -> None:
    assert "Why: " in ao("explain", "AOX-191").stdout
    assert '"works_for_seconds"' in ao("explain", "flush").stdout


def test_what_an_executor_has_mounted_in_its_folder_is_left_and_named(tmp_path: Path) -> None:
    require_mounts()
    treasure = tmp_path / "outside" / "treasure"
    treasure.parent.mkdir()
    treasure.touch()
    program = script(tmp_path, f'mkdir "$TMPDIR/here" && mount --bind "{treasure.parent}" "$TMPDIR/here"')
    command = [*UNSHARED, AO, "conformance", "run", "--only", "start", "--", program]

    called = subprocess.run(
        command, capture_output=True, text=True, timeout=100, check=False, env={**os.environ, "TMPDIR": str(tmp_path)}
    )

    assert treasure.exists()
    assert "here': it is on another mount; remove it by hand" in called.stderr


def test_an_executor_that_hangs_behind_its_result_is_not_played_on(tmp_path: Path) -> None:
    hanging = script(tmp_path, f'{ECHO} "$@" || exit\n[ "$1" = describe ] || sleep 1000')
    vectors = [vector.id for vector in load_process_vectors() if vector.level == "core"]

    result = play(hanging, *vectors, level="core")

    unplayed = [vector.id for vector in result.vectors if vector.reason == Reason.HANGS]
    assert (broken(result), len(unplayed) > len(vectors) / 2) == ({"AOX-193"}, True)
    assert "since the executor hung" in headline(result)


def test_a_describe_that_hangs_is_the_one_thing_that_is_told(tmp_path: Path) -> None:
    plan = Plan(
        command=(script(tmp_path, "sleep 1000"),),
        level="core",
        vectors=[vector for vector in load_process_vectors() if vector.id in {"describe", "start", "noise"}],
        patience_seconds=1.0,
    )

    told = {vector.id: (vector.verdict, vector.reason) for vector in run_suite(plan).vectors}

    assert told["describe"] == (Verdict.FAIL, "")
    assert told["start"] == told["noise"] == (Verdict.NEVER_EXERCISED, Reason.HANGS)


def test_an_executor_that_knows_one_run_by_its_name_has_no_other(tmp_path: Path) -> None:
    by_name = f"""case $line in *'"run_1"'*) printf '%s\\n' "$line" | {ECHO};; esac"""
    knowing = script(tmp_path, f'[ "$1" = describe ] && exec {ECHO} describe\nread -r line\n{by_name}')

    assert [vector.verdict for vector in play(knowing, "start").vectors] == [Verdict.FAIL]
