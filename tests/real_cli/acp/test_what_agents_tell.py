"""What real agents pass on to their model, and tell of it: attachments, reasoning, the work of sub-agents, retries."""

import base64
import hashlib
import os
from pathlib import Path
from typing import Any

import pytest

from ao_model_simulator import claude_environment, environment_for
from tests.conftest import StartModel
from tests.process.executors.driver import Run, installed, invocation, run
from tests.real_cli.programs import CLAUDE_CLI, needs_claude_agent, needs_gemini, needs_opencode

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
PDF = (
    b"%PDF-1.4\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj\n2 0 obj<</Type/Pages/Kids[3 0 R]/Count 1>>endobj\n"
    b"3 0 obj<</Type/Page/Parent 2 0 R/MediaBox[0 0 3 3]>>endobj\ntrailer<</Root 1 0 R>>\n%%EOF"
)
FILES = {"image/png": PNG, "application/pdf": PDF}
THOUGHT = {"type": "thinking", "thinking": "I look at both."}
APIS = {"gemini": "gemini", "opencode": "anthropic"}

each_agent = pytest.mark.parametrize(
    "agent",
    [
        pytest.param("claude-acp", marks=needs_claude_agent),
        pytest.param("gemini", marks=needs_gemini),
        pytest.param("opencode", marks=[needs_opencode, pytest.mark.slow]),
    ],
)


def ask(agent: str, url: str, folder: Path, settings: dict[str, Any], **fields: Any) -> Run:
    """Run an agent in a folder that is its home, too."""
    (folder / "tmp").mkdir(exist_ok=True)
    if agent in APIS:
        env = {"HOME": str(folder), "TMPDIR": str(folder / "tmp"), **environment_for(APIS[agent], url)}
    else:
        env = {**claude_environment(url, folder), "CLAUDE_CODE_EXECUTABLE": str(CLAUDE_CLI)}
    config = {"model": "claude-opus-4-6", **settings}
    document = invocation(**{"project_dir": str(folder), "executor_config": config, **fields})
    return run([installed(f"ao-{agent}-exec")], document, env={**env, "PATH": os.environ["PATH"]})


def said(ended: Run) -> list[tuple[str, str, str | None]]:
    """Return kind, text and parent of each message. Gemini puts a title in front of a thought, here an empty one."""
    messages = [(event["content"][0], event.get("parent_tool_call_id")) for event in ended.of_type("message")]
    return [(block["type"], block["text"].removeprefix("****\n"), parent) for block, parent in messages]


@each_agent
def test_a_model_sees_what_is_attached_and_its_reasoning_is_reported(
    agent: str, start_model: StartModel, tmp_path: Path
) -> None:
    seen = [f"{media_type} {hashlib.sha256(data).hexdigest()}" for media_type, data in FILES.items()]
    answer = {"content": [THOUGHT, {"type": "text", "text": "Both."}]}
    used = {"input_tokens": 100, "output_tokens": 50, "reasoning_tokens": 30}
    model = start_model({**answer, "usage": used, "expect": {"files_contain": seen}})
    given = [
        {"name": f"thing {number}", "media_type": media_type, "data": base64.b64encode(data).decode()}
        for number, (media_type, data) in enumerate(FILES.items())
    ]
    ended = ask(agent, model.url, tmp_path, {}, attachments=given, requires=["attachments"])

    assert ended.terminal["result_text"] == "Both."
    assert said(ended) == [("reasoning", "I look at both.", None), ("text", "Both.", None)]
    assert "reasoning" in [event["content"][0]["type"] for event in ended.of_type("message_delta")]
    # Gemini's API counts thoughts beside the output, and its CLI does not pass that figure on.
    assert ended.terminal["usage"]["output_tokens"] == (20 if agent == "gemini" else 50)


@each_agent
def test_reasoning_is_not_reported_on_request(agent: str, start_model: StartModel, tmp_path: Path) -> None:
    model = start_model({"content": [THOUGHT, {"type": "text", "text": "Both."}]})
    ended = ask(agent, model.url, tmp_path, {"show_reasoning": False})

    assert said(ended) == [("text", "Both.", None)]
    assert b"I look" not in ended.stdout


@needs_claude_agent
@pytest.mark.parametrize(("shows", "display"), [(True, "summarized"), (False, "updates")], ids=["shown", "hidden"])
def test_claude_is_asked_for_a_text_of_its_reasoning(
    shows: bool, display: str, start_model: StartModel, tmp_path: Path
) -> None:
    model = start_model({"text": "Both."})
    ask("claude-acp", model.url, tmp_path, {"show_reasoning": shows, "reasoning_effort": "low"})
    body: Any = model.requests[0].body

    assert body["thinking"]["display"] == display
    assert body["output_config"] == {"effort": "low"}


@needs_claude_agent
def test_the_work_of_a_sub_agent_of_claude_is_part_of_its_call(start_model: StartModel, tmp_path: Path) -> None:
    given = {"description": "look", "prompt": "Look.", "subagent_type": "general-purpose"}
    call = {"type": "tool_use", "id": "ask", "name": "Agent", "input": given}
    tool = {"type": "tool_use", "id": "look", "name": "Bash", "input": {"command": "echo found"}}
    text = {"type": "text", "text": "I look."}
    model = start_model(
        {"content": [{"type": "text", "text": "I ask."}, call]},
        {"content": [THOUGHT, text, tool]},
        {"text": "Found."},
        {"text": "It is found."},
    )
    ended = ask("claude-acp", model.url, tmp_path, {"access": "all"})

    assert said(ended) == [
        ("text", "I ask.", None),
        ("reasoning", "I look at both.", "ask"),
        ("text", "I look.", "ask"),
        ("text", "Found.", "ask"),
        ("text", "It is found.", None),
    ]
    assert ended.terminal["result_text"] == "It is found."
    assert {event["tool_call_id"]: event.get("parent_tool_call_id") for event in ended.of_type("tool_started")} == {
        "ask": None,
        "look": "ask",
    }
    assert [event["tool_call_id"] for event in ended.of_type("tool_finished")] == ["look", "ask"]


@needs_opencode
@pytest.mark.requirement("AOX-077")
def test_the_retries_of_opencode_are_told_and_limited(start_model: StartModel, tmp_path: Path) -> None:
    model = start_model({"status": 529, "repeat": "forever"})
    ended = ask("opencode", model.url, tmp_path, {"max_api_retries": 1})

    assert [event["attempt"] for event in ended.of_type("retry_scheduled")] == [1]
    assert ended.terminal["error"]["type"] == "provider_unavailable"


@needs_opencode
def test_opencode_is_not_asked_where_it_would_take_another_model(start_model: StartModel, tmp_path: Path) -> None:
    """With OpenCode 1.18, prompts for a model that it does not know go to a model of opencode.ai."""
    model = start_model({"text": "Hello."}, satisfied=False)
    ended = ask("opencode", model.url, tmp_path, {"model": "claude-opus-4-66"})

    assert ended.terminal["error"]["type"] == "model_not_found"
    assert "does not know the model anthropic/claude-opus-4-66; name" in ended.terminal["error"]["message"]
    assert len(model.requests) == 0


@needs_opencode
@pytest.mark.slow  # three starts of OpenCode
def test_opencode_continues_a_session_only_where_it_began(start_model: StartModel, tmp_path: Path) -> None:
    model = start_model({"text": "Hello.", "repeat": "forever"})
    started = ask("opencode", model.url, tmp_path, {})
    (bound,) = started.of_type("session_bound")
    session = {"mode": "resume", "executor_session_id": bound["executor_session_id"]}
    (tmp_path / "inner").mkdir()
    elsewhere = ask("opencode", model.url, tmp_path, {}, **session, project_dir=str(tmp_path / "inner"))

    assert elsewhere.terminal["error"]["type"] == "unsupported_capability"
    assert "the agent would work where the session began, and not in" in elsewhere.terminal["error"]["message"]
    assert ask("opencode", model.url, tmp_path, {}, **session).terminal["result_text"] == "Hello."


@needs_gemini
@pytest.mark.requirement("AOX-106", "AOX-198")
def test_gemini_tells_a_delay_and_its_shell_has_no_key(start_model: StartModel, tmp_path: Path) -> None:
    shell = {"type": "tool_use", "name": "run_shell_command", "input": {"command": "env > given"}}
    limited = {"status": 429, "headers": {"retry-after": "4"}, "repeat": "forever"}
    model = start_model({"content": [shell]}, limited)
    ended = ask("gemini", model.url, tmp_path, {"access": "all", "max_api_retries": 0, "model": "gemini-2.5-pro"})

    assert (ended.terminal["error"]["type"], ended.terminal["error"]["retry_after_seconds"]) == ("rate_limited", 4)
    assert "PATH=" in (tmp_path / "given").read_text()
    assert "GEMINI_API_KEY" not in (tmp_path / "given").read_text()
