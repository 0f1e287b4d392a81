"""Settings with one meaning in every executor (SPEC 7), as the real CLI keeps them."""

from pathlib import Path
from typing import Any

import pytest

from tests.process.executors.driver import ExecutorProcess, Run
from tests.real_cli.claude_code.claude import EXECUTOR, Claude
from tests.real_cli.claude_code.conftest import StartClaude


def bash(call_id: str, command: str) -> dict[str, Any]:
    return {"type": "tool_use", "id": call_id, "name": "Bash", "input": {"command": command}}


def outcomes(run: Run) -> dict[str, str]:
    return {event["tool_call_id"]: event["status"] for event in run.of_type("tool_finished")}


READS = [bash("list", "ls"), {"type": "tool_use", "id": "read", "name": "Read", "input": {"file_path": "seen"}}]
EDITS = [
    {
        "type": "tool_use",
        "id": "edit",
        "name": "Edit",
        "input": {"file_path": "seen", "old_string": "old", "new_string": "new"},
    },
    {"type": "tool_use", "id": "write", "name": "Write", "input": {"file_path": "note", "content": "x"}},
]
RUNS = [bash("touch", "touch made"), bash("redirect", "echo hi > made"), bash("remove", "rm seen")]
PROGRAMS = [bash("program", 'python3 -c \'open("made-by-program", "w")\''), bash("outside", "touch ../outside")]


def perform(claude: Claude, calls: list[dict[str, Any]], **fields: object) -> Run:
    (claude.home / "work").mkdir()
    (claude.home / "work" / "seen").write_text("old")
    run = claude.run(project_dir=str(claude.home / "work"), **fields)
    assert set(outcomes(run)) == {one["id"] for one in calls}
    return run


@pytest.mark.requirement("AOX-127")
@pytest.mark.parametrize("mode", [None, "dontAsk", "default", "plan"])
def test_read_changes_nothing_where_nobody_answers(start_claude: StartClaude, mode: str | None) -> None:
    calls = [*READS, *EDITS, *RUNS, *PROGRAMS]
    claude = start_claude({"content": calls}, {"text": "Done."})
    config = {"access": "read"} | ({"permission_mode": mode} if mode else {})
    run = perform(claude, calls, executor_config=config)

    changing = {one["id"] for one in (*EDITS, *RUNS, *PROGRAMS)}
    found = outcomes(run)
    assert {name for name, status in found.items() if status == "completed"} == {"list", "read"}
    assert {found[name] for name in changing} <= {"denied", "failed"}
    assert [path.name for path in (claude.home / "work").iterdir()] == ["seen"]
    assert (claude.home / "work" / "seen").read_text() == "old"
    assert not (claude.home / "outside").exists()


@pytest.mark.requirement("AOX-127")
def test_edit_changes_files_in_its_folders_and_runs_no_program(start_claude: StartClaude, tmp_path: Path) -> None:
    more = tmp_path / "more"
    more.mkdir()
    in_more = {
        "type": "tool_use",
        "id": "more",
        "name": "Write",
        "input": {"file_path": f"{more}/note", "content": "x"},
    }
    claude = start_claude(
        {"content": [READS[1]]}, {"content": [*EDITS, in_more]}, {"content": PROGRAMS}, {"text": "Done."}
    )
    config = {"access": "edit", "additional_folders": [str(more)]}
    run = perform(claude, [READS[1], *EDITS, in_more, *PROGRAMS], executor_config=config)

    completed = {name for name, status in outcomes(run).items() if status == "completed"}
    assert completed == {"read", "edit", "write", "more"}
    assert (claude.home / "work" / "seen").read_text() == "new"
    assert not (claude.home / "outside").exists()
    assert not (claude.home / "work" / "made-by-program").exists()


@pytest.mark.requirement("AOX-127")
def test_all_needs_no_question(start_claude: StartClaude) -> None:
    calls = [*RUNS, *PROGRAMS]
    claude = start_claude({"content": calls}, {"text": "Done."})
    run = perform(claude, calls, executor_config={"access": "all"})

    assert set(outcomes(run).values()) == {"completed"}
    assert (claude.home / "outside").exists()


@pytest.mark.requirement("AOX-127")
def test_a_folder_that_is_not_named_is_not_read(start_claude: StartClaude, tmp_path: Path) -> None:
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "note").write_text("x")
    read = {"type": "tool_use", "id": "read", "name": "Read", "input": {"file_path": str(tmp_path / "more" / "note")}}
    statuses = []
    for folders in ([], [str(tmp_path / "more")]):
        claude = start_claude({"content": [read]}, {"text": "Done."})
        project = tmp_path / f"project-{len(folders)}"
        project.mkdir()
        run = claude.run(project_dir=str(project), executor_config={"additional_folders": folders})
        statuses.append(outcomes(run)["read"])
    assert statuses == ["denied", "completed"]


def test_edit_with_a_person_asks_about_programs_alone(start_claude: StartClaude) -> None:
    claude = start_claude({"content": EDITS[1:]}, {"content": PROGRAMS[:1]}, {"text": "Done."})
    with claude.start(control={"stdin": "open", "input": True}, executor_config={"access": "edit"}) as executor:
        request = executor.read_until("input_requested")
        executor.write_line({"type": "input_response", "request_id": request["request_id"], "option_id": "allow"})
        run = executor.finish()

    assert request["tool_call_id"] == "program"
    assert outcomes(run) == {"program": "completed"}
    assert (claude.home / "note").exists()
    assert (claude.home / "made-by-program").exists()


def test_edit_with_a_person_asks_about_files_outside_of_its_folders(start_claude: StartClaude, tmp_path: Path) -> None:
    outside = {"file_path": str(tmp_path / "outside"), "content": "x"}
    claude = start_claude(
        {"content": [{"type": "tool_use", "id": "outside", "name": "Write", "input": outside}]}, {"text": "Done."}
    )
    project = tmp_path / "project"
    project.mkdir()
    asked = {"control": {"stdin": "open", "input": True}, "executor_config": {"access": "edit"}}
    with claude.start(project_dir=str(project), **asked) as executor:
        request = executor.read_until("input_requested")
        executor.write_line({"type": "input_response", "request_id": request["request_id"], "option_id": "deny"})
        run = executor.finish()

    assert (request["tool_call_id"], outcomes(run)) == ("outside", {"outside": "denied"})
    assert not (tmp_path / "outside").exists()


@pytest.mark.requirement("AOX-046", "AOX-104")
@pytest.mark.parametrize(
    ("access", "mode"),
    [("read", "acceptEdits"), ("read", "auto"), ("edit", "dontAsk"), ("edit", "bypassPermissions"), ("all", "plan")],
)
def test_access_and_a_permission_mode_that_contradict_each_other_are_refused(
    start_claude: StartClaude, access: str, mode: str
) -> None:
    claude = start_claude()
    run = claude.run(executor_config={"access": access, "permission_mode": mode})

    assert (run.error["type"], run.exit_code) == ("invalid_executor_config", 64)
    (violation,) = run.error["details"]["violations"]
    assert violation["pointer"] == "$.permission_mode"
    assert violation["message"].startswith(f"{mode} contradicts access {access}")
    assert not claude.model.requests


@pytest.mark.requirement("AOX-069")
def test_a_contradiction_that_was_prepared_is_refused_by_the_run(start_claude: StartClaude) -> None:
    claude = start_claude()
    document = claude.invocation(executor_config={"access": "edit", "permission_mode": "plan"})
    with ExecutorProcess(EXECUTOR, env=claude.env) as executor:
        executor.write_line({"type": "prepare", "invocation": document})
        executor.write_line(document)
        run = executor.finish()

    assert (run.types, run.error["type"]) == (["run_started", "failure"], "invalid_executor_config")


@pytest.mark.requirement("AOX-127")
@pytest.mark.parametrize("effort", ["low", "medium", "high", "xhigh", "max"])
def test_the_effort_and_the_model_are_asked_for(start_claude: StartClaude, effort: str) -> None:
    claude = start_claude({"text": "Hello."})
    claude.run(executor_config={"reasoning_effort": effort, "model": "claude-opus-4-8"})

    body: Any = claude.model.requests[0].body
    assert (body["output_config"]["effort"], body["model"]) == (effort, "claude-opus-4-8")


def test_an_effort_that_the_cli_does_not_have_is_refused(start_claude: StartClaude) -> None:
    assert start_claude().run(executor_config={"reasoning_effort": "none"}).error["type"] == "invalid_executor_config"
