"""What the runner refuses before it starts a process (SPEC 11.1, AOX-238, AOX-239)."""

from pathlib import Path
from typing import Any

import pytest

from tests.process.runner.performing import perform

TOPIC = {"type": "object", "required": ["topic"], "properties": {"topic": {"type": "string"}}}
BAD_SCHEMA = {"type": "objekt"}


def attached(media_type: str = "image/png", **place: str) -> dict[str, Any]:
    return {"attachments": [{"name": "a", "media_type": media_type, **place}]}


REFUSED: dict[str, tuple[dict[str, Any], str, str]] = {
    "no prompt": ({"parameters": {"x": 1}}, "parameters_validation_failed", '"prompt" is a required property'),
    "a wrong parameter": (
        {"blueprint": {"parameters_schema": TOPIC}, "parameters": {"topic": 3}},
        "parameters_validation_failed",
        '$.topic: 3 is not of type "string"',
    ),
    "a bad schema of parameters": (
        {"blueprint": {"parameters_schema": BAD_SCHEMA}},
        "invalid_invocation",
        "$.agent_blueprint.parameters_schema: $.type",
    ),
    "a bad schema of answers": ({"blueprint": {"output_schema": BAD_SCHEMA}}, "invalid_output_schema", "$.type"),
    "no blueprint": ({"blueprint": {"name": ""}}, "invalid_invocation", "$.name"),
    "another type of agent": ({"blueprint": {"type": "procedural"}}, "unsupported_capability", "type procedural"),
    "a wrong configuration": ({"executor_config": {"size": "x"}}, "invalid_executor_config", '$.size: "x" is not of'),
    "a common setting that is not declared": (
        {"executor_config": {"access": "read", "size": 1}},
        "invalid_executor_config",
        "executor_config does not fit: $.access: x has no setting 'access'; it has size",
    ),
    "a strategy that is not there": (
        {"blueprint": {"output_schema": {}}, "contract": {"source": "blueprint", "options": {"strategy": "native"}}},
        "unsupported_capability",
        'strategy "native" is not available',
    ),
    "a media type that is not declared": (
        attached("application/pdf", data="JVBERi0="),
        "unsupported_capability",
        "$.attachments[0].media_type: x takes no attachments of the type application/pdf; it takes image/*",
    ),
    "a file that is not there": (
        attached(path="/nowhere/a.png"),
        "invalid_invocation",
        "$.attachments[0].path: '/nowhere/a.png' cannot be read: No such file or directory",
    ),
    "a folder": (attached(path="/"), "invalid_invocation", "$.attachments[0].path: '/' is not a file"),
    "a file of more than 32 MiB": (
        attached(path="LARGE"),
        "invalid_invocation",
        "has 33554433 bytes, and at most 33554432 are allowed",
    ),
    "too many files": (
        {"attachments": attached(data="")["attachments"] * 33},
        "invalid_invocation",
        "$.attachments: list should have at most 32 items",
    ),
    "a line of more than 16 MiB": (
        attached(data="A" * 16 * 1024 * 1024),
        "invocation_too_large",
        "and 16777216 are the most; use files",
    ),
}
STARTED = """#!/bin/sh
if [ "$1" = describe ]; then
    echo '{"schema_versions": ["3.0"], "executor": {"name": "x", "version": "1"},
        "capabilities": {"attachments": {"media_types": ["image/*"]}},
        "config_schema": {"type": "object", "properties": {"size": {"type": "integer"}}}}' | tr -d '\\n'; echo
    exit
fi
touch started
"""


@pytest.mark.requirement("AOX-238")
@pytest.mark.requirement("AOX-239")
@pytest.mark.parametrize("name", REFUSED)
def test_a_run_that_cannot_be_given_to_an_executor_starts_no_process(name: str, tmp_path: Path) -> None:
    asked, error_type, words = REFUSED[name]
    if asked.get("attachments", [{}])[0].get("path") == "LARGE":
        large = tmp_path / "large.png"
        with large.open("wb") as file:
            file.truncate(32 * 1024 * 1024 + 1)
        asked = attached(path=str(large))
    executor = tmp_path / "ao-x-exec"
    executor.write_text(STARTED)
    executor.chmod(0o755)

    performed = perform("x", tmp_path, executor_path=executor, **asked)

    error = performed.failure.error
    assert (error.type, error.side_effects, error.origin) == (error_type, "none", "caller")
    assert words in error.message
    assert not (tmp_path / "project" / "started").exists()
    assert "spawned" not in performed.record.seconds
    assert performed.types == ["run_started", "failure"]
