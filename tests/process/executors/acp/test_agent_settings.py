"""The settings with one meaning in every executor, and attachments, as an agent receives them."""

import base64
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.process.executors.acp.scripted_runs import ANY, CLAUDE, ask, config, methods, received
from tests.process.executors.driver import ExecutorProcess, installed, invocation
from tests.real_cli import mcp_lookup

GEMINI = [installed("ao-gemini-exec")]
OPENCODE = [installed("ao-opencode-exec")]
QWEN = [installed("ao-qwen-exec")]
CONTRACT = {"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}}
BYTES = b"\x89PNG\r\n\x1a\n"


def permitted(folder: Path, call: dict[str, Any], *traps: str, **fields: Any) -> bool:
    """Return whether a call for which an agent asks is allowed."""
    fields = {"program": CLAUDE} | fields
    ended = ask(folder, "asks_for", f"call:{json.dumps(call)}", *traps, **fields)
    (finished,) = ended.of_type("tool_finished")
    answer = ended.terminal["result_text"]
    assert (answer == "no") is (finished["status"] == "denied")
    return bool(answer == "yes")


def at(path: object) -> dict[str, Any]:
    return {"locations": [{"path": str(path)}]}


@pytest.mark.parametrize(
    ("kind", "read", "edit"),
    [
        ("read", True, True),
        ("search", True, True),
        ("edit", False, True),
        ("delete", False, True),
        ("move", False, True),
        ("execute", False, False),
        ("fetch", False, False),
        ("think", False, False),
        ("other", False, False),
    ],
)
def test_access_says_which_kinds_of_tools_need_no_question(tmp_path: Path, kind: str, read: bool, edit: bool) -> None:
    call = {"kind": kind, **at("a.txt")}

    assert permitted(tmp_path, call) is read
    assert permitted(tmp_path, call, settings={"access": "read"}) is read
    assert permitted(tmp_path, call, settings={"access": "edit"}) is edit
    assert permitted(tmp_path, call, settings={"access": "all"})


def test_access_ends_at_the_folders(tmp_path: Path) -> None:
    project, extra = tmp_path / "project", tmp_path / "extra"
    for folder in (project, extra):
        folder.mkdir()
    (project / "out").symlink_to(tmp_path)
    outside = [tmp_path / "a.txt", "../a.txt", "out/a.txt", f"{project}-b/a.txt"]
    settings = {"access": "edit", "additional_folders": [str(extra)]}
    can = 'can:{"sessionCapabilities": {"additionalDirectories": {}}}'

    for kind in ("read", "edit"):
        assert permitted(project, {"kind": kind, **at(extra / "a.txt")}, can, settings=settings)
        for place in outside:
            assert not permitted(project, {"kind": kind, **at(place)}, can, settings=settings)
    assert not permitted(project, {"kind": "edit"}, settings={"access": "edit"})  # nobody knows which file


def test_a_question_about_a_folder_is_one_about_the_call(tmp_path: Path) -> None:
    """OpenCode asks about a folder with the kind `other`, for a call whose kind it has told before."""
    call = {"kind": "other", **at(tmp_path / "a.txt")}

    assert permitted(tmp_path, call, 'first:{"kind": "read"}')
    assert not permitted(tmp_path, call, 'first:{"kind": "edit"}')


@pytest.mark.parametrize(
    ("program", "call", "first", "name"),
    [
        (CLAUDE, {}, {}, "shell"),
        (GEMINI, {"toolCallId": "run_shell__x_1"}, {"toolCallId": "run_shell__x_1"}, "run_shell"),
        (GEMINI, {"toolCallId": "run_shell-17-1"}, {"toolCallId": "run_shell-17-1"}, "run_shell"),
        (OPENCODE, {}, {"title": "bash"}, "bash"),
    ],
    ids=["a field", "id of the API", "id of the CLI", "first title"],
)
def test_allowed_tools_are_named_as_the_agent_names_them(
    tmp_path: Path, program: list[str], call: dict[str, Any], first: dict[str, Any], name: str
) -> None:
    trap = f"first:{json.dumps(first)}"
    model = {} if program == CLAUDE else {"model": "any"}

    assert permitted(tmp_path, call, trap, program=program, settings={"allowed_tools": [name], **model})
    assert not permitted(tmp_path, call, trap, program=program, settings={"allowed_tools": ["other"], **model})


@pytest.mark.parametrize(
    ("call", "is_allowed"),
    [
        ({"name": "mcp__my_files__lookup"}, True),
        ({"name": "mcp__others__lookup"}, False),
        ({"name": "mcp__my_files"}, False),
        ({"title": "mcp__my_files__lookup"}, False),
    ],
    ids=["its name", "another server", "no tool", "a title"],
)
def test_tools_of_the_blueprints_servers_need_no_question(
    tmp_path: Path, call: dict[str, Any], is_allowed: bool
) -> None:
    server = {"command": sys.executable, "args": [mcp_lookup.__file__]}
    blueprint = {"name": "a", "mcp_servers": {"my files": server}}

    assert permitted(tmp_path, call, program=CLAUDE, agent_blueprint=blueprint) is is_allowed


def test_nobody_is_asked_about_what_needs_no_question(tmp_path: Path) -> None:
    agent = config("asks_for", 'call:{"kind": "read"}')
    document = invocation(project_dir=str(tmp_path), executor_config=agent, control={"stdin": "open", "input": True})
    with ExecutorProcess(CLAUDE) as executor:
        executor.write_line(document)
        ended = executor.finish()

    assert ended.terminal["result_text"] == "yes"
    assert not ended.of_type("input_requested")


def test_nobody_is_offered_an_answer_that_lasts_longer_than_the_session(tmp_path: Path) -> None:
    """Qwen 0.24.4 writes such an answer as a rule into `settings.json` of the user or the project."""
    kinds = {"proceed_always_user": "allow_always", "proceed_once": "allow_once", "cancel": "reject_once"}
    offered = [{"optionId": option, "name": option, "kind": kind} for option, kind in kinds.items()]
    agent = config("asks", f"options:{json.dumps(offered)}")
    document = invocation(project_dir=str(tmp_path), executor_config=agent, control={"stdin": "open", "input": True})
    with ExecutorProcess(QWEN) as executor:
        executor.write_line(document)
        request = executor.read_until("input_requested")
        executor.write_line({"type": "input_response", "request_id": request["request_id"], "option_id": "cancel"})
        executor.finish()

    assert [option["id"] for option in request["options"]] == ["proceed_once", "cancel"]


def test_a_mode_of_the_agent_and_access_contradict_each_other(tmp_path: Path) -> None:
    error = ask(tmp_path, program=CLAUDE, settings={"access": "read", "mode": "auto"}).error

    assert error["type"] == "invalid_executor_config"
    assert [violation["pointer"] for violation in error["details"]["violations"]] == ["$.mode"]
    assert not (tmp_path / "received.jsonl").exists()


def test_reasoning_effort_is_chosen_in_the_session_or_refused(tmp_path: Path) -> None:
    chosen = ask(tmp_path, program=CLAUDE, settings={"reasoning_effort": "low"})
    asked = [message["params"] for message in received(tmp_path) if message["method"] == "session/set_config_option"]
    refused = ask(tmp_path, program=CLAUDE, settings={"reasoning_effort": "max"})

    assert chosen.exit_code == 0
    assert asked == [{"sessionId": str(tmp_path), "configId": "effort", "value": "low"}]
    assert refused.error["type"] == "invalid_executor_config"
    assert "but high, low" in refused.error["message"]
    assert methods(tmp_path).count("session/prompt") == 1


@pytest.mark.parametrize("program", [ANY, CLAUDE], ids=["acp", "claude-acp"])
def test_additional_folders_are_given_to_the_session_or_refused(tmp_path: Path, program: list[str]) -> None:
    settings = {"additional_folders": [str(tmp_path)]}
    can = 'can:{"sessionCapabilities": {"additionalDirectories": {}}}'
    given = ask(tmp_path, can, program=program, settings=settings)
    opened = received(tmp_path)[1]["params"]
    refused = ask(tmp_path, program=program, settings=settings)

    assert given.exit_code == 0
    assert opened["additionalDirectories"] == [str(tmp_path)]
    assert refused.error["type"] == "invalid_executor_config"
    assert "additionalDirectories" in refused.error["message"]


def attached(folder: Path, *media_types: str) -> dict[str, Any]:
    """Return the fields of an invocation with an attachment of each type, the first of them in a file."""
    (folder / "file").write_bytes(BYTES)
    contents = [b"text" if media_type == "text/plain" else BYTES for media_type in media_types]
    data = [{"data": base64.b64encode(content).decode()} for content in contents]
    places = [{"path": str(folder / "file")}, *data[1:]]
    named = zip(media_types, places, strict=True)
    attachments = [{"name": "a b", "media_type": media_type, **place} for media_type, place in named]
    return {"attachments": attachments, "requires": ["attachments"]}


def test_attachments_precede_the_text_of_the_first_prompt(tmp_path: Path) -> None:
    can = 'can:{"promptCapabilities": {"image": true, "embeddedContext": true}}'
    files = attached(tmp_path, "image/png", "application/pdf")
    ended = ask(tmp_path, can, "answers_a_contract_late", program=CLAUDE, output_schema=CONTRACT, **files)
    first, second = [message["params"]["prompt"] for message in received(tmp_path)[3:]]

    assert ended.terminal["result_data"] == {"n": 2}
    assert [block["type"] for block in first] == ["image", "resource", "text"]
    data = base64.b64encode(BYTES).decode()
    assert first[0] == {"type": "image", "mimeType": "image/png", "data": data}
    assert first[1]["resource"] == {"uri": "attachment:a%20b", "mimeType": "application/pdf", "blob": data}
    assert [block["type"] for block in second] == ["text"]


def test_an_agent_with_inline_files_gets_blocks_only(tmp_path: Path) -> None:
    """Gemini's CLI drops images beside embedded resources, and changes the text of the prompt."""
    can = 'can:{"promptCapabilities": {"image": true, "audio": true}}'
    ask(tmp_path, can, program=GEMINI, **attached(tmp_path, "application/pdf", "text/plain", "audio/wav"))
    blocks = received(tmp_path)[-1]["params"]["prompt"]

    assert [(block["type"], block.get("mimeType")) for block in blocks] == [
        ("image", "application/pdf"),
        ("image", "text/plain"),
        ("audio", "audio/wav"),
        ("text", None),
    ]


def test_an_agent_that_takes_less_than_its_row_says_is_not_asked(tmp_path: Path) -> None:
    can = 'can:{"promptCapabilities": {"image": true}}'
    error = ask(tmp_path, can, program=CLAUDE, **attached(tmp_path, "image/png", "application/pdf")).error

    assert (error["type"], error["details"]["missing"]) == ("unsupported_capability", ["attachments:application/pdf"])
    assert methods(tmp_path) == ["initialize"]


@pytest.mark.parametrize("program", [ANY, CLAUDE], ids=["acp", "claude-acp"])
def test_what_is_not_declared_is_refused_before_an_agent_starts(tmp_path: Path, program: list[str]) -> None:
    error = ask(tmp_path, program=program, **attached(tmp_path, "text/plain")).error

    assert (error["type"], error["details"]["missing"]) == ("unsupported_capability", ["attachments:text/plain"])
    assert not (tmp_path / "received.jsonl").exists()
