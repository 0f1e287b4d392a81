"""Versions, unknown fields, and everything else that is settled before any work."""

from pathlib import Path
from typing import Any

import pytest

from tests.executors.driver import Run, installed, invocation, run
from tests.executors.homemade import homemade

ECHO = [installed("ao-echo-exec")]
UNTOUCHED = """
(task.project_dir / "touched").touch()
return done
"""


@pytest.mark.requirement("AOX-012")
@pytest.mark.requirement("AOX-017")
@pytest.mark.parametrize(
    ("document", "announced"),
    [
        pytest.param({"schema_version": "2.1", "mode": "start", "session_id": "s", "prompt": "Hi"}, "2.1", id="2.1"),
        pytest.param(
            {"schema_version": "2.2", "mode": "start", "session_id": "s", "parameters": {"prompt": "Hi"}},
            "2.2",
            id="2.2",
        ),
        pytest.param(invocation(), "3.0", id="3.0"),
        pytest.param(invocation(schema_version="3.7"), "3.0", id="3.7"),
    ],
)
def test_a_known_major_is_performed(document: dict[str, object], announced: str) -> None:
    ended = run(ECHO, document)

    assert ended.events[0]["schema_version"] == announced
    assert ended.terminal["result_text"] == "Hi"


@pytest.mark.requirement("AOX-013")
def test_unknown_fields_are_ignored_at_any_depth() -> None:
    unknown = {"new_in_3_7": {"deep": [1, {"er": None}]}}
    ended = run(
        ECHO,
        invocation(
            agent_blueprint={
                "name": "a",
                **unknown,
            },
            limits={"timeout_seconds": 60, **unknown},
            control={"stdin": "closed", **unknown},
            metadata=unknown,
            **unknown,
        ),
    )

    assert ended.exit_code == 0


def changed(**fields: object) -> dict[str, object]:
    return {name: value for name, value in invocation(**fields).items() if value is not ...}


REFUSED = [
    pytest.param(
        changed(schema_version="4.0"),
        "unsupported_schema_version",
        {"requested": "4.0", "supported": ["3.0", "2.2", "2.1"]},
        id="a major version that nobody speaks",
        marks=pytest.mark.requirement("AOX-011"),
    ),
    pytest.param(
        changed(requires=["time_travel", "telepathy"]),
        "unsupported_capability",
        {"missing": ["time_travel", "telepathy"]},
        id="a feature that is not known",
        marks=pytest.mark.requirement("AOX-014"),
    ),
    pytest.param(
        changed(agent_blueprint={"name": "a", "type": "procedural"}),
        "unsupported_capability",
        {"missing": ["agent_type:procedural"]},
        id="a type of agent that is not served",
        marks=pytest.mark.requirement("AOX-051"),
    ),
    pytest.param(
        changed(mode="resume", executor_session_id="x"),
        "unsupported_capability",
        {"missing": ["resume"]},
        id="a resume where there is none",
        marks=pytest.mark.requirement("AOX-054"),
    ),
    pytest.param(
        changed(mode="resume"),
        "invalid_invocation",
        None,
        id="a resume of nothing",
        marks=pytest.mark.requirement("AOX-053"),
    ),
    pytest.param(
        changed(schema_version="three"),
        "invalid_invocation",
        None,
        id="no version at all",
        marks=pytest.mark.requirement("AOX-010"),
    ),
    pytest.param(
        changed(mode=..., limits={"timeout_seconds": 0}),
        "invalid_invocation",
        None,
        id="wrong fields",
        marks=pytest.mark.requirement("AOX-041"),
    ),
    pytest.param(
        changed(agent_blueprint={"name": "a", "parameters_schema": {"type": "no type"}}),
        "invalid_invocation",
        None,
        id="a schema of parameters that is none",
        marks=pytest.mark.requirement("AOX-145"),
    ),
    pytest.param(
        changed(parameters={"prompt": ""}),
        "parameters_validation_failed",
        {
            "validation_errors": ["$.prompt: '' should be non-empty"],
            "schema": {
                "type": "object",
                "required": ["prompt"],
                "properties": {"prompt": {"type": "string", "minLength": 1}},
            },
        },
        id="an empty prompt",
        marks=[pytest.mark.requirement("AOX-140"), pytest.mark.requirement("AOX-141")],
    ),
]


@pytest.mark.requirement("AOX-090")
@pytest.mark.requirement("AOX-104")
@pytest.mark.requirement("AOX-108")
@pytest.mark.parametrize(("document", "error_type", "details"), REFUSED)
def test_an_invocation_is_refused_before_any_work(
    tmp_path: Path, document: dict[str, object], error_type: str, details: dict[str, Any] | None
) -> None:
    ended = run(homemade(tmp_path, UNTOUCHED), document, cwd=tmp_path)

    assert ended.types == ["run_started", "failure"]
    assert ended.error["type"] == error_type
    assert (ended.error["retryable"], ended.error["side_effects"], ended.exit_code) == (False, "none", 64)
    assert not (tmp_path / "touched").exists()
    if details is not None:
        assert ended.error["details"] == details


@pytest.mark.requirement("AOX-041")
def test_every_wrong_field_is_named() -> None:
    ended = run(ECHO, changed(mode="begin", limits={"max_turns": 0}, project_dir="relative"))

    paths = [problem.split(":")[0] for problem in ended.error["details"]["problems"]]
    assert sorted(paths) == ["$.limits.max_turns", "$.mode", "$.project_dir"]


@pytest.mark.requirement("AOX-015")
@pytest.mark.parametrize("version", ["4.0", "x", None], ids=["unsupported", "malformed", "null"])
def test_the_newest_version_is_announced_where_the_requested_one_cannot_be(version: str | None) -> None:
    ended = run(ECHO, invocation(schema_version=version))

    assert ended.events[0]["schema_version"] == "3.0"


@pytest.mark.requirement("AOX-042")
def test_null_is_absent() -> None:
    ended = run(ECHO, invocation(agent_blueprint=None, limits=None, control=None, executor_config=None, run_id=None))

    assert ended.exit_code == 0


@pytest.mark.requirement("AOX-043")
@pytest.mark.requirement("AOX-073")
def test_ids_that_are_missing_are_made_and_kept() -> None:
    ended = run(ECHO, changed(run_id=..., session_id=...))

    ((run_id, session_id),) = {(event["run_id"], event["session_id"]) for event in ended.events}
    assert run_id.startswith("run_")
    assert session_id.startswith("ses_")


@pytest.mark.parametrize("name", ["absent", "x" * 300, "a\0b", "\0"], ids=["absent", "long", "zero", "zero at the end"])
@pytest.mark.requirement("AOX-045")
def test_a_project_directory_that_is_not_there_is_a_workspace_error(tmp_path: Path, name: str) -> None:
    ended = run(ECHO, invocation(project_dir=str(tmp_path / name)))

    assert (ended.error["type"], ended.error["origin"], ended.exit_code) == ("workspace_error", "environment", 1)


def failure_under(max_event_bytes: int, **fields: object) -> Run:
    return run(ECHO, invocation(limits={"max_event_bytes": max_event_bytes}, **fields))


@pytest.mark.requirement("AOX-028")
@pytest.mark.requirement("AOX-192")
def test_a_refusal_fits_a_line_whatever_it_has_to_tell() -> None:
    schema = {"type": "object", "description": "x" * 10_000, "required": ["topic"]}
    ended = failure_under(4096, agent_blueprint={"name": "a", "parameters_schema": schema})

    assert ended.error["type"] == "parameters_validation_failed"
    assert ended.error["validation_errors"] == ["$: 'topic' is a required property"]
    assert max(map(len, ended.stdout.splitlines(keepends=True))) <= 4096


@pytest.mark.requirement("AOX-028")
@pytest.mark.parametrize(
    ("run_id", "is_taken"),
    [
        pytest.param("n" * 512, True, id="512 letters"),
        pytest.param("n" * 513, False, id="513 letters"),
        pytest.param("ü" * 512, True, id="512 letters, 1,024 bytes"),
        pytest.param("ü" * 511 + "あ", False, id="512 letters, 1,025 bytes"),
        pytest.param("\u0001" * 170, True, id="170 control characters, 1,020 bytes as JSON"),
        pytest.param("\u0001" * 171, False, id="171 control characters, 1,026 bytes as JSON"),
    ],
)
def test_names_leave_room_for_an_event_in_the_shortest_line(run_id: str, is_taken: bool) -> None:
    asked = invocation(run_id=run_id, session_id=run_id, parameters={"prompt": "x" * 9000})

    ended = run(ECHO, {**asked, "limits": {"max_event_bytes": 4096}})

    assert [event["run_id"] for event in ended.events] == [run_id if is_taken else None] * len(ended.events)
    assert ended.terminal["event_type"] == ("result" if is_taken else "failure")
    assert is_taken or ended.error["type"] == "invalid_invocation"
