"""The message that is being written, below the progress at a terminal."""

import io
import json
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
from pydantic import JsonValue
from rich.cells import cell_len
from rich.console import Console

from ao_protocol.events import Body, Result, ToolFinished, Usage, event_from_document
from ao_runner.cli.message_tail import MessageTail
from tests.process.runner.cli.calling import SECONDS, Ao, at_a_terminal, miniature, read_until

LONG = " ".join(f"word{number}" for number in range(3000))


def said(event_type: str, text: str, message_id: str = "m", block: str = "text", **part: str) -> Body:
    envelope: dict[str, Any] = {"session_id": "s", "run_id": "r", "seq": 1, "timestamp": "2026-01-01T00:00:00Z"}
    content: list[JsonValue] = [{"type": block, "text": text}]
    fields: dict[str, JsonValue] = {"message_id": message_id, "role": "assistant", "content": content, **part}
    return event_from_document({"event_type": event_type, **envelope, **fields}).body


def shown(tail: MessageTail, columns: int = 30, rows: int = 20) -> list[str]:
    return [line.plain for line in tail.lines(Console(file=io.StringIO(), width=columns, height=rows))]


def test_a_complete_message_stays_until_another_event_tells_where_it_belongs() -> None:
    tail = MessageTail()
    for body in (said("message_delta", "One "), said("message_delta", "two"), said("message", "One two"), Usage()):
        tail.receive(body)
    assert shown(tail) == ["│ One two"]

    tail.receive(said("message_delta", "Next", "n"))
    assert shown(tail) == ["│ Next"]
    tail.receive(Result(result_text="Next", result_data=None, stop_reason="end_turn"))
    assert shown(tail) == []


@pytest.mark.parametrize(
    "text",
    [LONG, LONG.replace(" ", "\n"), "日本語" * 1000, "x" * 5000, "\t\tx" * 500, "e\u0301\u200d" * 2000],
    ids=["long", "many lines", "wide", "one word", "tabs", "of no width"],
)
@pytest.mark.parametrize(("columns", "rows"), [(80, 24), (11, 6), (300, 60)])
def test_the_last_lines_fit_whatever_is_written(text: str, columns: int, rows: int) -> None:
    tail = MessageTail()
    for begin in range(0, len(text), 700):
        tail.receive(said("message_delta", text[begin : begin + 700]))
        lines = shown(tail, columns, rows)
        assert 0 < len(lines) <= min(12, rows // 2)
        assert max(map(cell_len, lines)) <= columns
    assert lines[-1].rstrip().endswith(text[-1])


def test_of_what_the_model_thinks_the_end_is_shown_on_one_line_until_it_writes() -> None:
    tail = MessageTail()
    for text, expected in (
        ("First,\nI ", ["· thinking: I"]),
        ("look at all of the files of it.", ["· thinking: … at all of the files of it."]),
        ("日本" * 20, [f"· thinking: …本{'日本' * 6}"]),
        ("\n\x1b[31mThen\t", ["· thinking: [31mThen"]),
        ("\n \n", ["· thinking: [31mThen"]),
    ):
        tail.receive(said("message_delta", text, block="reasoning"))
        assert shown(tail, columns=40) == expected
    tail.receive(said("message_delta", "x", block="_acme/note"))
    assert shown(tail) == ["· [31mThen"]

    tail.receive(said("message_delta", "Yes\nNo"))
    assert shown(tail) == ["│ Yes", "│ No"]
    tail.receive(said("message_delta", "Hm", block="reasoning"))
    assert shown(tail) == ["│ Yes", "│ No", "· Hm"]
    assert shown(tail, rows=2) == ["· Hm"]
    tail.receive(said("message_delta", "It is so", "n", block="reasoning", parent_tool_call_id="a"), 1)
    assert shown(tail, columns=8) == ["│ Yes", "│ No", "· Hm", "  · … so"]


def test_a_whole_thought_is_shown_no_longer_because_it_is_told() -> None:
    tail = MessageTail()
    tail.receive(said("message_delta", "Hm", block="reasoning"))
    tail.receive(said("message", "Hm", block="reasoning"))

    assert shown(tail) == []


def test_sub_agents_that_write_at_the_same_time_have_lines_of_their_own() -> None:
    tail = MessageTail()
    for text in ("One ", "two\nthree"):
        tail.receive(said("message_delta", text, "m1", parent_tool_call_id="a"), 1)
        tail.receive(said("message_delta", text.upper(), "m2", parent_tool_call_id="b"), 2)
    assert shown(tail) == ["  │ One two", "  │ three", "    │ ONE TWO", "    │ THREE"]
    assert shown(tail, rows=4) == ["  │ three", "    │ THREE"]
    assert max(map(len, shown(tail, columns=8))) == 8

    tail.receive(said("message", "One two\nthree", "m1", parent_tool_call_id="a"), 1)
    assert shown(tail) == ["    │ ONE TWO", "    │ THREE"]
    tail.receive(ToolFinished(tool_call_id="b", tool_name="Task", status="completed"), 1)
    assert shown(tail) == []


def test_nothing_is_shown_where_there_is_no_room() -> None:
    tail = MessageTail()
    tail.receive(said("message_delta", "One"))

    assert shown(tail, columns=5) == []


@pytest.mark.parametrize("columns", [80, 12])
def test_a_message_is_shown_while_it_is_written_and_steers_no_terminal(columns: int, ao: Ao) -> None:
    run = ("run", "agent.yaml", "-p", "x", "--executor", miniature("stops_within_a_message"))
    with at_a_terminal(ao, *run, columns=columns, streams={"stdin": None}) as (process, ours):
        read = read_until(ours, b"far")
        process.send_signal(signal.SIGINT)
        read += read_until(ours)
        assert process.wait(SECONDS) == 130

    assert b"[31mred" in read or columns < 80  # the first lines have left a small terminal
    assert all(steering not in read for steering in (b"\x1b[31mred", b"\xc2\x9b", b"\x1b]0;", b"\x07"))


def test_what_the_model_thinks_is_shown_at_a_terminal_while_it_thinks(ao: Ao, tmp_path: Path) -> None:
    run = ("run", "agent.yaml", "-p", str(tmp_path), "--executor", miniature("thinks_and_delegates"))
    with at_a_terminal(ao, *run, columns=40, streams={"stdin": None}) as (process, ours):
        read_until(ours, "· thinking: …r, so I ask two sub-agents.".encode())
        (tmp_path / "thought").touch()
        read_until(ours, "  · thinking: …es: the first, the second".encode())
        (tmp_path / "done").touch()
        read_until(ours)
        assert process.wait(SECONDS) == 0


@pytest.mark.parametrize("stream", ["terminal", "pipe"])
def test_without_colours_or_a_terminal_a_message_is_shown_when_it_is_complete(stream: str, ao: Ao) -> None:
    run = ("run", "agent.yaml", "-p", "x", "--executor", miniature("speaks_in_many_pieces"))
    if stream == "pipe":
        read = ao(*run).stderr
    else:
        with at_a_terminal(ao, *run, streams={"stdin": None}, variables={"NO_COLOR": "1"}) as (process, ours):
            read = read_until(ours).decode()
            assert process.wait(SECONDS) == 0

    assert read.count("│ word0.0 word0.1") == 1
    assert read.count("│ word1.0 word1.1") == 1


def test_events_for_programs_have_the_pieces_and_the_whole(ao: Ao) -> None:
    run = ao.argv("run", "agent.yaml", "-p", "x", "--executor", miniature("speaks_in_many_pieces"), "--events")
    done = subprocess.run(
        run, cwd=ao.folder, env=ao.environment(), capture_output=True, text=True, timeout=SECONDS, check=True
    )

    types = [json.loads(line)["event_type"] for line in done.stdout.splitlines()]
    assert types == ["run_started", *(["message_delta"] * 250 + ["message"]) * 2, "result"]
