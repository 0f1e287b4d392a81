"""Runs that ask a person, for the tests of both ways to answer: at a terminal, and elsewhere."""

import json
import time
from typing import Any, Final

from tests.process.runner.cli.calling import SECONDS, Ao

COMMAND: Final = {"command": "rm -r build"}


def write_profile(ao: Ao, name: str, *questions: Any, **fields: Any) -> str:
    """Write a profile whose agent asks before it calls Bash with each of these inputs, one in each answer."""
    answers = [
        {"tools": [{"name": "Bash", "input": question, "output": "done", "ask": True}], "text": f"Answer {number}."}
        for number, question in enumerate(questions or (COMMAND,), 1)
    ]
    profile = {"executor": "scripted", "config": {"script": {"answers": answers}}, **fields}
    (ao.folder / "profiles").mkdir(exist_ok=True)
    ao.write(f"profiles/{name}.json", json.dumps(profile))
    return str(ao.folder / "profiles" / f"{name}.json")


def wait_until_it_asks(ao: Ao, *run_ids: str) -> list[dict[str, Any]]:
    """Wait until all these runs, or any, have a request that waits, and return the requests."""
    until = time.monotonic() + SECONDS
    while time.monotonic() < until:
        found: list[dict[str, Any]] = ao("inputs", "--json").document
        if found and set(run_ids) <= {one["run_id"] for one in found}:
            return found
    raise AssertionError("nothing has asked within a minute")


def events_of(ao: Ao, run_id: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in ao("events", run_id).stdout.split("\n") if line]


def resolutions_of(ao: Ao, run_id: str) -> list[tuple[str, str]]:
    """Return how the requests of a run were resolved, by whom, in order."""
    return [(one["outcome"], one["by"]) for one in events_of(ao, run_id) if one["event_type"] == "input_resolved"]


def tools_of(ao: Ao, run_id: str) -> list[str]:
    return [one["status"] for one in events_of(ao, run_id) if one["event_type"] == "tool_finished"]
