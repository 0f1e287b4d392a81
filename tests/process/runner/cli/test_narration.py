"""What a person is told, from literal events."""

from typing import Any

import pytest

from ao_protocol.events import Event, event_from_document
from ao_runner.cli.printing import plain_text, shorten
from ao_runner.cli.run_progress import Narrator, ProgressLine


def event(event_type: str, **fields: Any) -> Event:
    envelope: dict[str, Any] = {"session_id": "s", "run_id": "r", "seq": 1, "timestamp": "2026-01-01T00:00:00Z"}
    return event_from_document({"event_type": event_type, **envelope, **fields})


def message(text: str) -> Event:
    return event("message", message_id="m", role="assistant", content=[{"type": "text", "text": text}])


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
    told, lines = TOLD[name]

    assert Narrator().tell(told) == lines


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

    lines = narrator.tell(RESULT)

    assert [line.text for line in lines[-2:]] == ["line 5", "… 3 more lines"]


def test_nothing_that_is_told_can_steer_a_terminal() -> None:
    assert plain_text("a\x1b]0;title\x07b\x9b31m\tc\n") == "a]0;titleb31m\tc\n"
    assert shorten("x" * 200) == "x" * 160 + "…"
