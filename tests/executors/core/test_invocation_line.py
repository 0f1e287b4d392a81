"""How an invocation line may arrive, and what is refused before it is even looked at."""

import os
from pathlib import Path

import pytest

from ao_executors.core.stdio import Stdio
from ao_protocol.framing import MAX_INVOCATION_BYTES
from tests.executors.driver import ExecutorProcess, Run, installed, invocation, line_of, run

ECHO = [installed("ao-echo-exec")]
PROMPT = "Grüße 🦊\nzweite Zeile"
LINE = line_of(invocation(parameters={"prompt": PROMPT}))


@pytest.mark.requirement("AOX-021")
@pytest.mark.requirement("AOX-022")
def test_a_line_may_be_cut_at_every_byte() -> None:
    line = LINE.replace(b"\n", b"\r\n")
    for offset in range(1, len(line)):
        reading, writing = os.pipe()
        stdio = Stdio(reading, -1)
        os.write(writing, line[:offset])
        if offset < len(line):
            assert list(stdio.read_lines()) == []
        os.write(writing, line[offset:])
        assert stdio.read_invocation_line() == LINE.rstrip(b"\n")
        os.close(writing)
        os.close(reading)


@pytest.mark.requirement("AOX-021")
def test_single_bytes_make_the_same_line() -> None:
    with ExecutorProcess.start(ECHO) as executor:
        for place in range(len(LINE)):
            executor.write(LINE[place : place + 1])
        ended = executor.finish()

    assert ended.terminal["result_text"] == PROMPT


@pytest.mark.parametrize(
    "arrives",
    [
        pytest.param(LINE.replace(b"\n", b"\r\n"), id="CRLF", marks=pytest.mark.requirement("AOX-022")),
        pytest.param(b"\xef\xbb\xbf" + LINE, id="byte-order mark", marks=pytest.mark.requirement("AOX-023")),
        pytest.param(b"\n \r\n\t\n" + LINE, id="blank lines first", marks=pytest.mark.requirement("AOX-024")),
        pytest.param(LINE.rstrip(b"\n"), id="no line end", marks=pytest.mark.requirement("AOX-025")),
        pytest.param(LINE + b"{not a control line", id="more behind it", marks=pytest.mark.requirement("AOX-060")),
    ],
)
def test_an_invocation_is_accepted_with(arrives: bytes) -> None:
    ended = run(ECHO, arrives)

    assert ended.terminal["result_text"] == PROMPT
    assert ended.exit_code == 0


@pytest.mark.requirement("AOX-040")
@pytest.mark.requirement("AOX-060")
def test_work_begins_and_ends_without_the_end_of_stdin() -> None:
    with ExecutorProcess.start(ECHO) as executor:
        executor.write(LINE)
        ended = executor.finish()

    assert ended.exit_code == 0


@pytest.mark.requirement("AOX-026")
@pytest.mark.requirement("AOX-028")
@pytest.mark.requirement("AOX-029")
def test_sixteen_mebibytes_are_accepted_and_a_long_answer_is_cut() -> None:
    bare = len(line_of(invocation(parameters={"prompt": ""}))) - 1
    prompt = "x" * (MAX_INVOCATION_BYTES - bare)
    ended = run(ECHO, invocation(parameters={"prompt": prompt}))

    assert ended.exit_code == 0
    assert ended.terminal["truncated"] is True
    assert ended.terminal["original_bytes"] == len(prompt)
    assert max(map(len, ended.stdout.splitlines(keepends=True))) == 1024 * 1024


def refusal(ended: Run) -> tuple[list[str], str, int]:
    assert ended.error["side_effects"] == "none"
    assert ended.error["retryable"] is False
    return ended.types, ended.error["type"], ended.exit_code


@pytest.mark.requirement("AOX-027")
def test_one_byte_more_is_refused() -> None:
    ended = run(ECHO, b"x" * (MAX_INVOCATION_BYTES + 1))

    assert refusal(ended) == (["run_started", "failure"], "invocation_too_large", 64)
    assert ended.error["details"] == {"limit_bytes": 16_777_216}


@pytest.mark.requirement("AOX-030")
@pytest.mark.requirement("AOX-090")
@pytest.mark.requirement("AOX-104")
@pytest.mark.parametrize(
    "line",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"\n\n", id="blank lines only"),
        pytest.param(b"{not json}\n", id="not JSON"),
        pytest.param(b'"text"\n', id="not an object"),
        pytest.param(b'{"a":"\xff"}\n', id="not UTF-8"),
        pytest.param(b'{"a":NaN}\n', id="NaN"),
        pytest.param(b'{"a":1,"a":1}\n', id="a key twice"),
        pytest.param(b'{"a":9007199254740992}\n', id="an integer too large"),
        pytest.param(b'{"a":' + b"[" * 64 + b"]" * 64 + b"}\n", id="65 levels"),
    ],
)
def test_what_is_no_i_json_is_refused(line: bytes) -> None:
    ended = run(ECHO, line)

    assert refusal(ended) == (["run_started", "failure"], "invalid_json", 64)


@pytest.mark.requirement("AOX-043")
def test_a_line_that_cannot_be_read_leaves_both_ids_null() -> None:
    ended = run(ECHO, b"{\n")

    assert {(event["run_id"], event["session_id"]) for event in ended.events} == {(None, None)}


@pytest.mark.requirement("AOX-031")
def test_sixty_four_levels_are_accepted() -> None:
    deep = b'{"x":' + b"[" * 63 + b"]" * 63 + b"," + LINE[1:]
    ended = run(ECHO, deep)

    assert ended.exit_code == 0


@pytest.mark.requirement("AOX-060")
def test_stdin_may_be_a_file(tmp_path: Path) -> None:
    (tmp_path / "invocation").write_bytes(LINE)
    ended = run(["/bin/sh", "-c", f'exec {ECHO[0]} < "$0"', str(tmp_path / "invocation")], b"")

    assert ended.exit_code == 0


@pytest.mark.requirement("AOX-067")
def test_the_end_of_a_file_says_nothing_even_with_control_open(tmp_path: Path) -> None:
    (tmp_path / "invocation").write_bytes(line_of(invocation(control={"stdin": "open"})))
    ended = run(["/bin/sh", "-c", f'exec {ECHO[0]} < "$0"', str(tmp_path / "invocation")], b"")

    assert ended.exit_code == 0


@pytest.mark.requirement("AOX-192")
def test_a_closed_stdin_is_an_empty_one() -> None:
    ended = run(["/bin/sh", "-c", f"exec {ECHO[0]} <&-"], b"")

    assert refusal(ended) == (["run_started", "failure"], "invalid_json", 64)


@pytest.mark.requirement("AOX-043")
@pytest.mark.parametrize("name", ["run_id", "session_id"])
def test_a_name_that_no_event_could_carry_is_refused_and_null_on_the_events(name: str) -> None:
    ended = run(ECHO, line_of(invocation(**{name: "x" * 2_000_000})))

    assert ended.terminal["error"]["type"] == "invalid_invocation"
    assert f"$.{name}: " in ended.terminal["error"]["details"]["problems"][0]
    assert [event[name] for event in ended.events] == [None, None]
    assert ended.exit_code == 64
