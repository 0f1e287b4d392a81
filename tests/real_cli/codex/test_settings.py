"""The settings that every executor has: what the agent may do without a question, its model, its folders."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from ao_executors.codex.codex_config import EFFORTS
from tests.real_cli.codex.conftest import StartCodex

PLACEHOLDERS = {".agents", ".aws", ".codex", ".git"}
"""Empty folders on which the CLI's sandbox mounts. CLI 0.163 sometimes leaves them (openai/codex issue 31599)."""
ESCALATED = {"sandbox_permissions": "require_escalated", "justification": "I want to"}


@pytest.fixture
def elsewhere(tmp_path: Path) -> Path:
    """Return a folder beside the project."""
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    return folder


def calls(*commands: str | dict[str, Any]) -> dict[str, Any]:
    """Return the answer of a model that runs commands."""
    inputs = [{"cmd": given} if isinstance(given, str) else given for given in commands]
    return {
        "content": [
            {"type": "tool_use", "id": f"call_{number}", "name": "exec_command", "input": given}
            for number, given in enumerate(inputs, 1)
        ]
    }


@pytest.mark.requirement("AOX-127")
@pytest.mark.parametrize(
    ("access", "made"),
    [("read", []), ("edit", ["inside"]), ("all", ["escalated", "inside", "outside", "removed"])],
)
def test_access_says_what_needs_no_question(
    start_codex: StartCodex, access: str, made: list[str], elsewhere: Path
) -> None:
    there = {name: elsewhere / name for name in ("outside", "escalated", "removed")}
    commands = calls(
        "touch inside",
        f"touch {there['outside']}",
        {"cmd": f"touch {there['escalated']}", **ESCALATED},
        f"touch x && rm -f x && touch {there['removed']}",
    )
    codex = start_codex(commands, {"text": "Done."})
    run = codex.run(executor_config={"access": access})

    names = {path.name for folder in (codex.project, elsewhere) for path in folder.iterdir()}
    assert sorted(names - PLACEHOLDERS) == made
    assert not any(list((codex.project / name).glob("*")) for name in PLACEHOLDERS)
    statuses = {event["tool_call_id"]: event["status"] for event in run.of_type("tool_finished")}
    assert statuses["call_3"] == statuses["call_4"] == ("completed" if access == "all" else "denied")
    assert run.of_type("input_requested") == []


@pytest.mark.requirement("AOX-127")
@pytest.mark.parametrize("access", ["read", "edit", "all"])
def test_a_person_is_asked_for_what_access_does_not_include(
    start_codex: StartCodex, access: str, elsewhere: Path
) -> None:
    escalated = {"cmd": f"touch {elsewhere}/new", **ESCALATED}
    codex = start_codex(calls("true", escalated), {"text": "Done."})
    control = {"stdin": "open", "input": True}
    with codex.start(control=control, executor_config={"access": access}) as executor:
        if access != "all":
            asked = executor.read_until("input_requested")
            assert asked["tool_call_id"] == "call_2"
            answer = {"type": "input_response", "request_id": asked["request_id"], "option_id": "accept"}
            executor.write_line(answer)
        events = executor.read_run()
    assert (elsewhere / "new").exists()
    assert [event for event in events if event["event_type"] == "input_requested"] == []


@pytest.mark.requirement("AOX-127")
def test_an_allowed_tool_needs_no_question_and_others_do(start_codex: StartCodex, elsewhere: Path) -> None:
    patch = f"apply_patch <<'EOF'\n*** Begin Patch\n*** Add File: {elsewhere}/%s\n+hi\n*** End Patch\nEOF\n"
    escalated = {"cmd": f"touch {elsewhere}/by-command", **ESCALATED}
    answers = [calls(escalated, patch % "by-patch"), {"text": "Done."}]
    codex = start_codex(*answers, *answers)

    codex.run(executor_config={"allowed_tools": ["exec_command"]})
    assert [path.name for path in elsewhere.iterdir()] == ["by-command"]
    codex.run(executor_config={"allowed_tools": ["apply_patch"], "access": "edit"})
    assert sorted(path.name for path in elsewhere.iterdir()) == ["by-command", "by-patch"]


@pytest.mark.requirement("AOX-127")
@pytest.mark.parametrize("access", ["read", "edit"])
def test_the_agent_works_in_additional_folders(start_codex: StartCodex, access: str, elsewhere: Path) -> None:
    codex = start_codex(calls(f"touch {elsewhere}/new"), {"text": "Done."})
    codex.run(executor_config={"access": access, "additional_folders": [str(elsewhere)]})

    assert (elsewhere / "new").exists() is (access == "edit")
    assert f"<root>{elsewhere}</root>" in json.dumps(codex.sent(0)["input"])


@pytest.mark.requirement("AOX-127")
def test_the_model_and_its_effort_are_those_of_the_settings(start_codex: StartCodex) -> None:
    codex = start_codex({"text": "Hi."}, {"text": "Hi."})
    session = codex.run().of_type("session_bound")[0]["executor_session_id"]
    settings = {"model": "plain", "reasoning_effort": "xhigh"}
    codex.run(mode="resume", executor_session_id=session, executor_config=settings)
    assert (codex.sent(1)["model"], codex.sent(1)["reasoning"]["effort"]) == ("plain", "xhigh")


def test_every_effort_that_a_model_of_the_cli_has_can_be_chosen(start_codex: StartCodex) -> None:
    codex = start_codex(satisfied=False)
    from ao_executors.codex.codex_process import CODEX

    asked = [str(CODEX.find()), "debug", "models", "--bundled"]
    told = subprocess.run(asked, env={"HOME": str(codex.home)}, capture_output=True, check=True)
    models = json.loads(told.stdout)["models"]
    assert {level["effort"] for model in models for level in model["supported_reasoning_levels"]} <= {*EFFORTS}
    refused = codex.run(executor_config={"reasoning_effort": "some"})
    assert refused.error["type"] == "invalid_executor_config"


@pytest.mark.parametrize(
    ("codex_config", "advice"),
    [
        ({"sandbox_mode": "danger-full-access"}, "set executor_config.access instead of sandbox_mode"),
        ({"model_reasoning_effort": "high"}, "set executor_config.reasoning_effort instead of model_reasoning_effort"),
        (
            {"sandbox_workspace_write": {"writable_roots": ["/"]}},
            "set executor_config.additional_folders instead of writable_roots",
        ),
    ],
    ids=["access", "effort", "folders"],
)
def test_a_key_of_the_cli_that_contradicts_a_setting_is_refused(
    start_codex: StartCodex, codex_config: dict[str, object], advice: str
) -> None:
    codex = start_codex(satisfied=False)
    run = codex.run(executor_config={"codex_config": codex_config})
    assert (run.error["type"], run.exit_code) == ("invalid_executor_config", 64)
    assert advice in run.error["message"]
    assert not codex.model.requests
