"""Terminals and pages tell an event by the same narration, whatever its type."""

import json
from typing import Any, Literal

import pytest

from ao_protocol.events import BODIES, Envelope, Event, InvalidEvent
from ao_protocol.wire import WireModel
from ao_runner.cli.progress_lines import Narrator, ProgressLine
from ao_runner.runs.narration import NOTHING, NarrationEntry, entry_of, event_for_people
from ao_server.event_log import EventPosition, LoggedEvent
from ao_server.pages.calls import without_repetition
from ao_server.pages.timeline import Entry
from ao_server.pages.timeline import entry_of as entry_of_page

ENVELOPE: dict[str, Any] = {"session_id": "s", "run_id": "r", "seq": 1, "timestamp": "2026-01-01T00:00:00Z"}


class Thought(WireModel):
    """An event of a later version of the protocol, for which nobody has written an entry."""

    event_type: Literal["thought"] = "thought"
    text: str


def line_of(event_type: str, **fields: Any) -> bytes:
    return json.dumps({"event_type": event_type, **ENVELOPE, **fields}).encode()


def on_page(line: bytes) -> Entry | None:
    return entry_of_page(LoggedEvent(EventPosition(1, 1), "r", line.decode()), {})


@pytest.mark.parametrize("event_type", BODIES)
def test_every_event_type_of_the_protocol_has_its_entry(event_type: str) -> None:
    assert entry_of.dispatch(BODIES[event_type]) is not entry_of.dispatch(object)


def test_an_event_type_that_nobody_knows_is_shown_at_a_terminal_and_on_a_page() -> None:
    line = line_of("thought", text="What if\nnot?")

    assert Narrator().tell(event_for_people(line)) == [ProgressLine("·", "thought What if not?")]
    entry = on_page(line)
    assert entry is not None
    assert (entry.told.kind, entry.told.title, entry.text.text) == ("log", "thought", "What if not?")
    assert "thought" in entry.html
    assert "What if" in entry.html


def test_a_type_of_the_protocol_without_an_entry_is_shown_like_one_that_nobody_knows() -> None:
    body: Any = Thought(text="Hm")
    event = Event.model_construct(envelope=Envelope(**ENVELOPE), body=body)

    assert Narrator().tell(event) == [ProgressLine("·", "thought Hm")]
    entry = entry_of(body)
    assert (entry.kind, entry.title, entry.text, entry.value) == ("log", "thought", "Hm", {"text": "Hm"})


def test_only_a_page_shows_an_event_of_a_vendor() -> None:
    line = line_of("_acme/thing", x=1)

    assert Narrator().tell(event_for_people(line)) == []
    entry = on_page(line)
    assert entry is not None
    assert (entry.told.title, entry.text.text) == ("_acme/thing", "1")


def test_both_tell_a_verdict_in_the_same_words() -> None:
    line = line_of("output_validation", attempt=1, valid=False, errors=["$.a: no"], retries_left=1)
    words = "attempt 1 of 2: the answer does not fit the schema; asking again"

    assert [one.text for one in Narrator().tell(event_for_people(line))] == [words, "  $.a: no"]
    entry = on_page(line)
    assert entry is not None
    assert (entry.text.text, entry.points, entry.state) == (words, ["$.a: no"], "bad")


@pytest.mark.parametrize(
    "line",
    [b"", b"[1]", b'{"event_type":"message","seq":1}', b'{"event_type":"thought","seq":1}', b'{"event_type":7}'],
    ids=["empty", "list", "known_type", "no_envelope", "no_type"],
)
def test_a_line_that_is_no_event_of_any_version_is_refused_and_shown_as_it_is_on_a_page(line: bytes) -> None:
    with pytest.raises(InvalidEvent):
        event_for_people(line)

    entry = on_page(line)
    assert entry is not None
    assert (entry.told.title, entry.text.text, entry.value) == ("event", line.decode(), None)


@pytest.mark.parametrize("event_type", ["usage", "heartbeat"])
def test_figures_and_signs_of_life_are_entries_that_nobody_shows_by_themselves(event_type: str) -> None:
    line = line_of(event_type, input_tokens=2, phase="model", last_progress_seq=0)
    entry = entry_of(event_for_people(line).body)

    assert (entry.weight, entry.value) == ("quiet", NOTHING)
    assert (Narrator().tell(event_for_people(line)), on_page(line)) == ([], None)


@pytest.mark.parametrize(
    ("event_type", "words"),
    [("message", f"First, {'x' * 153}…"), ("message_delta", f"{'y' * 152} the end")],
    ids=["whole", "while it thinks"],
)
def test_a_closed_fold_has_the_begin_of_a_thought_and_its_end_while_the_model_thinks(
    event_type: str, words: str
) -> None:
    thought = f"First,\n{'x' * 200}\n{'y' * 200} the end\n"
    content = [{"type": "reasoning", "text": thought}]
    entry = on_page(line_of(event_type, message_id="m", role="assistant", content=content))

    assert entry is not None
    assert (entry.words, entry.text.text) == (words, "")
    assert f"{thought.rstrip()}\n</div>" in entry.html


def test_a_changed_file_opens_its_diff_and_no_line_of_it_is_html() -> None:
    diff = "diff --git a/a b/a\n--- a/a\n+++ b/a\n@@ -1 +1 @@\n-<b>old\n+<script>new\n"
    files = [{"path": "a", "change": "changed"}, {"path": "b", "change": "added"}, {"path": ["a"]}, 7]
    entry = on_page(line_of("_ao/workspace", file_count=3, files=files, diffs={"a": diff, "b": 3}))

    assert entry is not None
    assert [(file.path, [kind for kind, _ in file.blocks]) for file in entry.files] == [
        ("a", ["place", "removed", "added"]),
        ("b", []),
        ("['a']", []),
    ]
    assert '<span class="added">+&lt;script&gt;new\n</span>' in entry.html
    assert "<b>" not in entry.html


def test_the_diffs_of_an_entry_are_bounded() -> None:
    diff = "@@ -0,0 +1 @@\n" + "+x\n" * 9000
    files = [{"path": f"{n}", "change": "added"} for n in range(300)]
    entry = on_page(line_of("_ao/workspace", files=files, diffs={f"{n}": diff for n in range(300)}))

    assert entry is not None
    assert len(entry.files) == 200
    assert sum(len(file.diff.text) for file in entry.files) <= 16_000
    assert len(entry.html) < 80_000


@pytest.mark.parametrize(
    ("said", "text", "value", "told"),
    [
        ("Done.", "Done.", NOTHING, "The result is the message above."),
        ('{"urgent": true}', "", {"urgent": True}, "The result is the message above."),
        ("It is urgent: true", "", {"urgent": True}, ""),
    ],
)
def test_a_result_that_is_the_last_message_does_not_stand_there_again(
    said: str, text: str, value: Any, told: str
) -> None:
    result = NarrationEntry("end", "Result", text, value=value)
    shown = without_repetition(result, said, is_run_page=False, has_parameters=True)
    assert (shown.text, shown.value is NOTHING) == (told, bool(told))
