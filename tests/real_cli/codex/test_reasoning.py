"""What the model thinks: asked for, reported apart from the answer, and left out on request."""

import pytest

from tests.process.executors.driver import Run
from tests.real_cli.codex.codex import command
from tests.real_cli.codex.conftest import StartCodex

THOUGHT = {"type": "thinking", "thinking": "I look at it."}
STRICT = {
    "type": "object",
    "required": ["severity"],
    "properties": {"severity": {"enum": ["low", "high"]}},
    "additionalProperties": False,
}


def blocks(run: Run, event_type: str) -> list[tuple[str, str]]:
    return [(block["type"], block["text"]) for event in run.of_type(event_type) for block in event["content"]]


@pytest.mark.requirement("AOX-079", "AOX-083", "AOX-085")
def test_reasoning_is_streamed_before_what_it_leads_to_and_is_no_answer(start_codex: StartCodex) -> None:
    call = {"content": [THOUGHT, *command("echo hi")["content"]], "chunk_chars": 5}
    used = {"input_tokens": 100, "output_tokens": 50, "reasoning_tokens": 30}
    codex = start_codex(call, {"content": [THOUGHT, {"type": "text", "text": "Done."}], "usage": used})
    run = codex.run()

    assert blocks(run, "message") == [*[("reasoning", "I look at it.")] * 2, ("text", "Done.")]
    pieces = blocks(run, "message_delta")
    assert pieces[0] == ("reasoning", "I loo")
    assert "".join(text for _, text in pieces) == "I look at it." * 2 + "Done."
    ids = [event["message_id"] for event in run.of_type("message")]
    assert len(set(ids)) == len(ids)
    types = run.types
    assert types.index("message") < types.index("tool_started")
    assert run.terminal["result_text"] == "Done."
    assert run.terminal["usage"]["reasoning_tokens"] == 30
    assert [codex.sent(number)["reasoning"]["summary"] for number in (0, 1)] == ["auto", "auto"]


def test_reasoning_is_neither_asked_for_nor_reported_if_it_is_not_to_be_shown(start_codex: StartCodex) -> None:
    codex = start_codex({"content": [THOUGHT, {"type": "text", "text": "Done."}]})
    run = codex.run(executor_config={"show_reasoning": False, "model": "plain"})

    assert blocks(run, "message") == [("text", "Done.")]
    assert b"I look" not in run.stdout
    assert "summary" not in codex.sent(0).get("reasoning", {})


@pytest.mark.requirement("AOX-085", "AOX-175")
@pytest.mark.parametrize("strategy", ["prompt", "native"])
def test_an_answer_is_not_read_from_reasoning(start_codex: StartCodex, strategy: str) -> None:
    thought = {"type": "thinking", "thinking": '{"severity": "low"}'}
    answers = [{"type": "text", "text": text} for text in ("None.", '{"severity": "high"}')]
    codex = start_codex(*({"content": [thought, answer]} for answer in answers))
    run = codex.run(output_schema=STRICT, output_schema_options={"strategy": strategy})

    assert run.terminal["result_data"] == {"severity": "high"}
    assert [event["valid"] for event in run.of_type("output_validation")] == [False, True]
    assert blocks(run, "message")[:2] == [("reasoning", '{"severity": "low"}')] * 2
    assert b"None." not in run.stdout


def test_the_reasoning_of_a_request_that_broke_off_is_a_message_of_its_own(start_codex: StartCodex) -> None:
    broken = {"content": [THOUGHT, {"type": "text", "text": "Hello there"}], "cut_after_chars": 17}
    run = start_codex(broken, {"content": [THOUGHT, {"type": "text", "text": "Hello."}]}).run()

    assert [kind for kind, _ in blocks(run, "message")] == ["reasoning", "text", "reasoning", "text"]
    assert run.terminal["result_text"] == "Hello."


def test_a_provider_that_refuses_to_show_reasoning_is_an_error_with_the_remedy(start_codex: StartCodex) -> None:
    told = {"message": "Your organization must be verified to generate reasoning summaries."}
    run = start_codex({"status": 400, "error": told}).run()

    assert "show_reasoning" in run.error["message"]
    assert "verified" in run.error["message"]
