"""What a person is told, from literal events."""

import json
import re
import subprocess
from typing import Any

import pytest

from ao_protocol.events import Event, event_from_document
from ao_runner.cli.printing import plain_text, shorten
from ao_runner.cli.progress_lines import Narrator, ProgressLine
from ao_runner.runs.narration import entry_of
from tests.process.runner.cli.calling import Ao, miniature


def event(event_type: str, **fields: Any) -> Event:
    envelope: dict[str, Any] = {"session_id": "s", "run_id": "r", "seq": 1, "timestamp": "2026-01-01T00:00:00Z"}
    return event_from_document({"event_type": event_type, **envelope, **fields})


def message(text: str, thought: str = "", **fields: Any) -> Event:
    reasoning = [{"type": "reasoning", "text": thought}] if thought else []
    content = [*reasoning, *([{"type": "text", "text": text}] if text else [])]
    return event("message", **{"message_id": "m", "role": "assistant", "content": content, **fields})


def begin(call: str, tool: str, tool_input: str, **part: str) -> Event:
    return event("tool_started", tool_call_id=call, tool_name=tool, tool_input=tool_input, **part)


def end(call: str, **fields: Any) -> Event:
    return event("tool_finished", **{"tool_call_id": call, "tool_name": "Task", "status": "completed", **fields})


def lines(narrator: Narrator, *events: Event) -> list[str]:
    return [f"{line.mark} {line.text}" for one in events for line in narrator.tell(one)]


RESULT = event("result", result_text="done", result_data=None, stop_reason="end_turn")

TOLD: dict[str, tuple[Event, list[ProgressLine]]] = {
    "a tool": (
        event("tool_started", tool_call_id="t", tool_name="Bash", tool_input={"command": "make\ntest"}),
        [ProgressLine("→", "Bash make test")],
    ),
    "a tool that failed": (
        event("tool_finished", tool_call_id="t", tool_name="Bash", status="failed", error="exit 2"),
        [ProgressLine("!", "Bash failed: exit 2", "fault")],
    ),
    "a tool that worked": (event("tool_finished", tool_call_id="t", tool_name="Bash", status="completed"), []),
    "a retry": (
        event("retry_scheduled", error={"type": "rate_limited", "message": "429"}, attempt=1, delay_seconds=2.5),
        [ProgressLine("…", "rate_limited: 429; retry 1 in 2.5 s", "warning")],
    ),
    "an invalid answer": (
        event("output_validation", attempt=1, valid=False, errors=["$.a: no"], retries_left=1),
        [
            ProgressLine("✗", "attempt 1 of 2: the answer does not fit the schema; asking again", "fault"),
            ProgressLine(" ", "  $.a: no", "fault"),
        ],
    ),
    "a valid answer": (
        event("output_validation", attempt=2, valid=True, errors=[], retries_left=0),
        [ProgressLine("✓", "attempt 2 of 2: the answer fits the schema", "good")],
    ),
    "a heartbeat": (event("heartbeat", phase="model", last_progress_seq=1), []),
    "a vendor's own": (event("_acme/thing", x=1), []),
}


@pytest.mark.parametrize("name", TOLD)
def test_an_event_is_told_in_a_line_or_not_at_all(name: str) -> None:
    told, expected = TOLD[name]

    assert Narrator().tell(told) == expected


@pytest.mark.parametrize("text", ["[" * 200_000, "9" * 5000], ids=["200,000 levels", "5,000 digits"])
def test_a_message_that_no_parser_reads_is_told_before_a_result_with_data(text: str) -> None:
    narrator = Narrator()

    assert narrator.tell(message(text)) == []
    (line,) = narrator.tell(event("result", result_text=None, result_data={}, stop_reason="end_turn"))

    assert line.text.startswith(text[:50])


def test_what_the_agent_says_on_the_way_is_told() -> None:
    narrator = Narrator()

    assert narrator.tell(message("I will look.")) == []
    assert narrator.tell(message("And now?")) == [ProgressLine("│", "I will look.")]


def test_the_answer_that_is_the_result_is_not_told_twice() -> None:
    narrator = Narrator()
    narrator.tell(message("done"))
    narrator.tell(event("usage", input_tokens=1))

    assert narrator.tell(RESULT) == []


def test_another_answer_than_the_result_is_told() -> None:
    narrator = Narrator()
    narrator.tell(message("almost done"))

    assert narrator.tell(RESULT) == [ProgressLine("│", "almost done")]


def test_a_long_message_is_cut() -> None:
    narrator = Narrator()
    narrator.tell(message("\n".join(f"line {number}" for number in range(9))))

    told = narrator.tell(RESULT)

    assert [line.text for line in told[-2:]] == ["line 5", "… 3 more lines"]


def test_nothing_that_is_told_can_steer_a_terminal() -> None:
    assert plain_text("a\x1b]0;title\x07b\x9b31m\tc\n") == "a]0;titleb31m\tc\n"
    assert shorten("x" * 200) == "x" * 160 + "…"


def test_what_the_model_thought_is_one_dim_line() -> None:
    thought = "First,\nI look. " + "x" * 200
    cut = f"thinking: First, I look. {'x' * 135}…"

    assert Narrator().tell(message("", thought)) == [ProgressLine("·", cut, "dim")]
    narrator = Narrator()
    assert narrator.tell(message("I look.", "Hm")) == []
    assert narrator.tell(message("And now?")) == [
        ProgressLine("·", "thinking: Hm", "dim"),
        ProgressLine("│", "I look."),
    ]


def test_a_verbose_reader_is_told_messages_and_thoughts_as_a_whole() -> None:
    thought, text = f"First,\n\nI look.\x1b {'x' * 200}", "\n".join(f"line {number} {'x' * 200}" for number in range(9))
    narrator = Narrator(is_verbose=True)
    narrator.tell(message(text, thought))

    assert [(line.mark, line.text) for line in narrator.tell(message("And now?"))] == [
        ("·", "thinking: First,"),
        ("·", f"I look. {'x' * 200}"),
        *(("│", line) for line in text.splitlines()),
    ]


def test_what_the_model_thought_before_the_result_is_told_without_the_result() -> None:
    narrator = Narrator()

    assert lines(narrator, message("done", "Hm"), RESULT) == ["· thinking: Hm"]


@pytest.mark.parametrize(
    "content", [[], [{"type": "_acme/picture", "data": "x"}], [{"type": "reasoning", "text": " "}]],
    ids=["empty", "unknown", "blank"],
)  # fmt: skip
@pytest.mark.parametrize("event_type", ["message", "message_delta"])
def test_a_message_that_says_nothing_has_no_line_and_its_end_neither(event_type: str, content: Any) -> None:
    said = event(event_type, message_id="m", role="assistant", content=content)

    assert lines(Narrator(), said, RESULT) == []


@pytest.mark.parametrize(("block", "doing"), [("reasoning", "thinking"), ("text", "writing"), ("_acme/picture", "")])
def test_while_the_model_thinks_the_run_is_said_to_think(block: str, doing: str) -> None:
    piece = event("message_delta", message_id="m", role="assistant", content=[{"type": block, "text": "x"}])

    assert entry_of(piece.body).doing == doing


def test_the_work_of_a_sub_agent_is_indented_below_its_call_by_its_depth() -> None:
    told = lines(
        Narrator(),
        begin("a", "Task", "Count"),
        message("I count.", "How?", parent_tool_call_id="a"),
        begin("b", "Task", "Check", parent_tool_call_id="a"),
        message("\n".join("1234567"), parent_tool_call_id="b"),
        end("b", status="failed", error="no"),
        message("done", parent_tool_call_id="a"),
        end("a"),
        message("done"),
        RESULT,
    )

    assert told == [
        "→ Task Count",
        "  · thinking: How?",
        "  │ I count.",
        "  → Task Check",
        *(f"    │ {line}" for line in "123456"),
        "    │ … 1 more lines",
        "  ! Task failed: no",
        "  │ done",
    ]


def test_of_sub_agents_that_work_at_once_the_one_is_named_whose_work_follows() -> None:
    a, b = {"parent_tool_call_id": "a"}, {"parent_tool_call_id": "b"}
    told = lines(
        Narrator(),
        begin("a", "Task", "A"),
        begin("b", "Task", "B " + "x" * 100),
        message("b1", **b),
        message("a1", **a),
        event("message_delta", message_id="m", role="assistant", content=[{"type": "text", "text": "x"}], **b),
        message("a2", **a),
        message("b2", **b),
        message("On the way."),
        message("b3", **b),
    )

    assert told == [
        "→ Task A",
        f"→ Task B {'x' * 100}",
        "  │ b1",
        "· part of Task A",
        "  │ a1",
        "  │ a2",
        f"· part of Task B {'x' * 73}…",
        "  │ b2",
        "│ On the way.",
        f"· part of Task B {'x' * 73}…",
        "  │ b3",
    ]


def test_a_part_of_a_call_that_nobody_has_seen_is_told() -> None:
    assert lines(Narrator(), message("x", parent_tool_call_id="?")) == ["· part of an earlier call", "  │ x"]


def test_a_run_in_a_terminal_and_its_stored_events_are_told_alike_and_only_the_answer_is_stdout(ao: Ao) -> None:
    run = ao("run", "agent.yaml", "-p", "x", "--executor", miniature("thinks_and_delegates"))

    assert run.stdout == "Three words in two lines.\n"
    told = [line.partition("s] ")[2] for line in run.stderr.splitlines() if line.startswith("[")]
    assert told[1:] == [
        "· thinking: The user wants two counts. They do not depend on each other, so I ask two sub-agents.",
        "· thinking: One for the words.",
        "│ I ask two sub-agents.",
        "→ Task Count the words",
        "  → Read a.txt",
        "→ Task Count the lines",
        "  · thinking: A file may end without a line feed. Then I add one.",
        "· part of Task Count the words",
        "  → Task Check the count",
        "    │ There are three words.",
        "    → Bash wc -w a.txt",
        "  │ Words: one, two, three",
        "· part of Task Count the lines",
        "  · thinking: Lines: the first, the second",
        "  │ Two lines.",
        "· thinking: Both have answered.",
    ]
    stored = ao("events", "last", "--text").stdout.splitlines()
    *shown, end = [line[9:] for line in stored]
    assert shown == ["> x", *told, "│ Three words in two lines."]
    assert re.fullmatch(r"✓ completed in \d+\.\d s( · .*)?", end)


def test_a_verbose_run_and_its_stored_events_have_every_line_and_events_in_json_do_not_change(ao: Ao) -> None:
    run = ("run", "agent.yaml", "-p", "x", "--executor", miniature("thinks_and_delegates"), "--verbose")
    lines = ["  · thinking: A file may end without a line feed.", "  · Then I add one."]

    shown = ao(*run)
    assert shown.stdout == "Three words in two lines.\n"
    told = [line.partition("s] ")[2] for line in shown.stderr.splitlines() if line.startswith("[")]
    stored = [line[9:] for line in ao("events", "last", "--verbose").stdout.splitlines()]
    at = told.index(lines[0])
    assert (told[at : at + 2], stored[1:-2]) == (lines, told)
    events = [json.loads(line) for line in ao(*run, "--events").stdout.splitlines()]
    thoughts = [block for one in events for block in one.get("content", []) if block["type"] == "reasoning"]
    assert {"type": "reasoning", "text": "A file may end without a line feed.\nThen I add one."} in thoughts


def test_followed_events_tell_an_answer_while_it_is_written_and_once(ao: Ao) -> None:
    goes_on = ao.folder / "goes_on"
    words = [f"word{number}" for number in range(20)]
    run = ao.argv("run", "agent.yaml", "-p", str(goes_on), "--executor", miniature("speaks_in_pieces"), "--events")
    follow = ao.argv("events", "last", "--follow", "--text")
    streams: Any = {"cwd": ao.folder, "env": ao.environment(), "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(run, **streams) as running:
        assert running.stdout is not None
        running.stdout.readline()
        with subprocess.Popen(follow, **streams) as following:
            assert following.stdout is not None
            early = [following.stdout.readline() for _ in range(3)]
            goes_on.touch()
            late = following.stdout.read().splitlines()
        running.communicate()

    assert early[2][9:].split() == ["│", *words[:18]]
    assert late[0][9:].split() == ["│", *words[18:]]
    assert [line[9:20] for line in late[1:]] == ["│ done", "✓ completed"]
    assert all(line[9] in "·>" for line in early[:2])


def test_the_end_of_a_failed_run_is_told_with_its_remedy(ao: Ao) -> None:
    ao("run", "agent.yaml", "-p", "x", "--executor", miniature("crashes_by_signal"))

    lines = [line[9:] for line in ao("events", "last", "--text").stdout.splitlines()]
    end = next(number for number, line in enumerate(lines) if line.startswith("✗ failed after "))
    assert lines[end].endswith(": executor_crashed")
    assert lines[-1].startswith("  what to do: ")
