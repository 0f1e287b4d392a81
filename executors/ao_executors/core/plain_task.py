"""The short way to a task: an invocation that plainly asks a prompt, and leaves nothing to check by a schema.

Internal. It imports neither models nor schemas, which cost more time than the rest of such a run. Whatever is not
plain here goes the long way, `prepare`, and comes to the same task.
"""

import os
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ao_executors.core.emitter import Emitter
from ao_executors.core.executor import DEFAULT_CANCEL_GRACE_SECONDS, Executor, RunLimits, Task
from ao_protocol.prompt_only import asks_a_prompt_alone, takes_an_empty_config

if TYPE_CHECKING:
    from ao_protocol.documents import Invocation


def plain_task(executor: Executor, document: dict[str, Any], events: Emitter) -> Task | None:
    """Return the task of an invocation, or None where `prepare` has to judge it."""
    if not asks_a_prompt_alone(document):
        return None
    blueprint, folder = document.get("agent_blueprint") or {}, find_project_dir(document.get("project_dir"))
    is_served = blueprint.get("type", "autonomous") in executor.agent_types
    config_schema = executor.description.get("config_schema", {"type": "object"})
    if not is_served or not takes_an_empty_config(config_schema) or folder is None:
        return None
    limits = limits_from(document["schema_version"], document.get("limits") or {}, document.get("control") or {})
    events.max_event_bytes = limits.max_event_bytes or events.max_event_bytes
    return Task(
        limits=limits,
        system_prompt=blueprint.get("system_prompt"),
        contract=None,
        config={},
        project_dir=folder,
        read_invocation=_reader(document),
        text=document.get("prompt") or document["parameters"]["prompt"],
        events=events,
    )


def _reader(document: dict[str, Any]) -> "Callable[[], Invocation]":
    @cache
    def read() -> "Invocation":
        from ao_protocol.documents import invocation_from_document

        return invocation_from_document(document)

    return read


def find_project_dir(said: str | None) -> Path | None:
    """Return the directory that an invocation names, or the working directory if it names none (SPEC 4.1).

    None if the name is not that of a directory (AOX-045), for whatever reason: `Path.is_dir` raises if it is too long.
    """
    path = Path(said or Path.cwd())
    return path if os.path.isdir(path) else None  # noqa: PTH112


def limits_from(schema_version: str, limits: Mapping[str, Any], control: Mapping[str, Any]) -> RunLimits:
    """Return what the valid `limits` and `control` of an invocation say."""
    listens = control.get("stdin") == "open"
    return RunLimits(
        schema_version,
        timeout_seconds=_seconds(limits, "timeout_seconds"),
        heartbeat_interval_seconds=_seconds(limits, "heartbeat_interval_seconds"),
        cancel_grace_seconds=_seconds(limits, "cancel_grace_seconds") or DEFAULT_CANCEL_GRACE_SECONDS,
        max_event_bytes=limits.get("max_event_bytes"),
        listens=listens,
        takes_turns=listens and control.get("turns") is True,
    )


def _seconds(limits: Mapping[str, Any], name: str) -> float | None:
    given = limits.get(name)
    return None if given is None else float(given)
