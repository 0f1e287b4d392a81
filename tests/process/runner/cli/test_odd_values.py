"""Odd values at the command line: refused with their place, or stored and read again; never a traceback."""

import json
import os
import subprocess
from dataclasses import replace
from typing import Any

import pytest

from ao_runner.store.opening import StorePlace
from ao_runner.store.records import Run, Session
from tests.odd_values import ODD_NAMES, ODD_VALUES
from tests.process.runner.cli.calling import SECONDS, Ao, Called

ECHO = ("--executor", "echo")
AT = "2026-01-01T00:00:00.000Z"


def called(ao: Ao, *arguments: str | bytes, stdin: bytes = b"", **variables: str | bytes) -> Called:
    """Call `ao` with bytes, which need not be text."""
    environ = {**{name: value.encode() for name, value in ao.environment().items()}, **variables}
    argv = [*ao.argv(), *arguments]
    how: dict[str, Any] = {"cwd": ao.folder, "env": environ, "input": stdin, "capture_output": True, "timeout": SECONDS}
    done = subprocess.run(argv, check=False, **how)
    return Called(done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace"))


def submitted(ao: Ao, written: bytes) -> Called:
    ao.write("agent.json", '{"name": "any", "parameters_schema": {"type": "object"}}')
    (ao.folder / "params.json").write_bytes(b'{"prompt": ' + written + b"}")
    return ao("submit", "agent.json", "--params", "params.json", "--profile", "echo")


def test_what_no_line_can_hold_is_refused_with_its_place(ao: Ao) -> None:
    for name, odd in ODD_VALUES.items():
        if odd.problem is not None:
            done = submitted(ao, odd.written)
            assert (done.exit_code, odd.problem in done.stderr) == (2, True), (name, done.stderr)
            assert ("params.json: $.prompt" in done.stderr) == odd.is_text, (name, done.stderr)
            assert "Traceback" not in done.stderr, (name, done.stderr)
    assert ao("runs", "--json").document == []


def test_what_is_accepted_is_listed_as_it_was_written(ao: Ao) -> None:
    accepted = {name: odd.written for name, odd in ODD_VALUES.items() if odd.problem is None}
    for name, written in accepted.items():
        done = submitted(ao, written)
        assert done.exit_code == 0, (name, done.stderr)
    listed = [run["parameters"]["prompt"] for run in ao("runs", "--json").document]
    assert listed[::-1] == list(map(json.loads, accepted.values()))
    assert ao("runs").exit_code == ao("sessions").exit_code == 0


@pytest.mark.parametrize(
    ("arguments", "place"),
    [
        (("result", b"a\x80"), "argument 2: byte 1"),
        (("events", b"\xff"), "argument 2: byte 0"),
        (("cancel", b"\xed\xa0\x80"), "argument 2: byte 0"),
        (("sessions", "delete", b"\xff"), "argument 3: byte 0"),
        (("schema", "show", b"\xff"), "argument 3: byte 0"),
        (("run", b"\xff.yaml", "-p", "x"), "argument 2: byte 0"),
        (("run", "agent.yaml", "-p", b"caf\xe9"), "argument 4: byte 3"),
        (("submit", "agent.yaml", "--param", b"k\xff=1"), "argument 4: byte 1"),
        (("runs", "--store", b"postgresql://u:geheim\xff@h/d"), "argument 3: byte 21"),
    ],
    ids=lambda value: None if isinstance(value, tuple) else value,
)
def test_an_argument_that_is_not_utf_8_is_refused(ao: Ao, arguments: tuple[str | bytes, ...], place: str) -> None:
    done = called(ao, *arguments)
    assert done.exit_code == 2
    assert done.stderr == f"ao: {place} is not UTF-8; convert the text, or rename the file or folder\n"


@pytest.mark.parametrize("variable", ["AO_HOME", "HOME", "TMPDIR", "AO_STORE", "XDG_DATA_HOME"])
def test_a_variable_that_is_not_utf_8_is_named_and_not_shown(ao: Ao, variable: str) -> None:
    done = called(ao, "runs", **{variable: b"/tmp/geheim\xff"})
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.startswith(f"ao: {variable}: byte 11 is not UTF-8")
    assert "geheim" not in done.stderr


def test_variables_of_others_may_hold_any_bytes(ao: Ao) -> None:
    done = called(ao, "run", "agent.yaml", "-p", "hi", *ECHO, SOME_VARIABLE=b"\xff", LC_TIME=b"\xff")
    assert (done.exit_code, done.stdout) == (0, "hi\n")


@pytest.mark.parametrize("command", [("run", *ECHO), ("submit", "--profile", "echo")], ids=["run", "submit"])
@pytest.mark.parametrize("dash", [(), ("-p", "-")], ids=["piped", "dash"])
def test_a_prompt_on_stdin_that_is_not_utf_8_is_refused_with_the_place(
    ao: Ao, command: tuple[str, ...], dash: tuple[str, ...]
) -> None:
    done = called(ao, command[0], "agent.yaml", *command[1:], *dash, stdin=b"caf\xe9")
    assert done.exit_code == 2
    assert done.stderr == "Error: the prompt on stdin: byte 3 is not UTF-8. Nothing was run\n"
    assert ao("sessions", "--json").document == []


def test_a_prompt_on_stdin_may_have_a_byte_order_mark_and_a_nul(ao: Ao) -> None:
    done = called(ao, "run", "agent.yaml", *ECHO, stdin="\ufeffa\0b é\r\n".encode())
    assert (done.exit_code, done.stdout) == (0, "a\0b é\n")


def test_the_name_of_an_agent_is_what_lists_can_hold(ao: Ao) -> None:
    for name, is_accepted in ODD_NAMES.values():
        ao.write("odd.json", json.dumps({"name": name}))
        done = ao("submit", "odd.json", "-p", "x", "--profile", "echo")
        assert (done.exit_code, "$.name: " in done.stderr) == ((0, False) if is_accepted else (2, True)), name
    names = [name for name, is_accepted in ODD_NAMES.values() if is_accepted]
    assert [run["agent_name"] for run in ao("runs", "--json").document] == names[::-1]


def test_a_limit_is_for_a_name_that_lists_can_hold(ao: Ao) -> None:
    done = ao("limits", "set", "--agent", "a\nb", "3")
    assert (done.exit_code, ao("limits", "--json").document) == (2, [])
    assert "found U+000A at character 1, expected a name" in done.stderr


def test_what_a_parameter_adds_to_the_depth_counts(ao: Ao) -> None:
    ao.write("any.json", '{"name": "any", "parameters_schema": {"properties": {"x": {"type": "array"}}}}')
    deepest, too_deep = ("[" * levels + "]" * levels for levels in (61, 62))
    assert ao("submit", "any.json", "--param", f"x={deepest}", "--profile", "echo").exit_code == 0
    refused = ao("submit", "any.json", "--param", f"x={too_deep}", "--profile", "echo")
    assert refused.exit_code == 2
    assert "parameters.x[0]" in refused.stderr


def test_a_run_that_no_invocation_can_hold_is_not_queued(ao: Ao) -> None:
    done = called(ao, "submit", "agent.yaml", "--profile", "echo", stdin=b"x" * 9_000_000)
    assert done.exit_code == 2
    assert "16777216 are the most; put large texts into files" in done.stderr
    assert ao("runs", "--json").document == []


def test_a_list_does_not_repeat_a_large_prompt(ao: Ao) -> None:
    prompt = "x" * 1_000_000
    assert called(ao, "submit", "agent.yaml", "--profile", "echo", stdin=prompt.encode()).exit_code == 0

    listed = ao("runs", "--json")
    assert len(listed.stdout) + len(ao("sessions", "--json").stdout) < 50_000
    assert listed.document[0]["parameters"]["_ao/omitted_bytes"] == 1_000_014
    assert 'submit "' not in ao("runs").stdout
    whole: Any = ao("result", listed.document[0]["run_id"], "--record").document
    assert whole["parameters"] == {"prompt": prompt}


def test_rows_that_an_earlier_version_stored_break_no_list(ao: Ao) -> None:
    with StorePlace(ao.folder / "ao-home").open() as store:
        for name, prompt in {"high": "\ud800", "low": "a\udc00b"}.items():
            store.sessions.add(Session(f"old_{name}", AT, "echo", "echo", "/x", {"name": "a\ud800"}))
            run = Run(f"run_{name}", f"old_{name}", "start", {"prompt": prompt}, AT, "queued")
            store.queue.add(replace(run, profile="echo"))

    assert [run["parameters"]["prompt"] for run in ao("runs", "--json").document] == ["a\ufffdb", "\ufffd"]
    assert {one["blueprint"]["name"] for one in ao("sessions", "--json").document} == {"a\ufffd"}
    assert (ao("runs").exit_code, ao("sessions").exit_code) == (0, 0)


def test_a_profile_whose_file_name_is_not_utf_8_breaks_no_list(ao: Ao) -> None:
    folder = os.fsencode(ao.folder / "ao-home" / "profiles")
    os.makedirs(folder)  # noqa: PTH103  # pathlib takes no bytes
    with open(folder + b"/odd\xff.yaml", "w") as file:  # noqa: PTH123
        file.write("executor: echo\n")

    done = called(ao, "executors")

    assert done.exit_code == 0
    assert "odd" in done.stdout
