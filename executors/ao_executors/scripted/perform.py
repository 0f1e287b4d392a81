"""The story of one scripted run: read the script, find the place, converse."""

import json
import os
import re
from pathlib import Path
from typing import Final, cast

from pydantic import JsonValue

from ao_executors.core import converse
from ao_executors.core.failures import RunFailed, refused
from ao_executors.core.occupancy import occupy
from ao_executors.core.task import Task
from ao_executors.scripted.model import ScriptedModel
from ao_executors.scripted.script_schema import SCRIPT_SCHEMA, SCRIPT_VARIABLE
from ao_protocol.contracts.validation import validate
from ao_protocol.errors import ErrorType
from ao_protocol.events import Result
from ao_protocol.wire import JsonObject

_SESSION: Final = re.compile(r"scripted_(?P<name>[0-9a-f]{16})_(?P<answers>[0-9]{1,9})")


async def perform_script(task: Task, wire_fd: int) -> Result:
    """Play a task.

    The id of a scripted session says how many answers it has had, so that a resume, in a new process, goes on
    behind them and nothing has to be kept.

    Raises:
        RunFailed: as the script says, or because there is none, or none of such a session.
    """
    script = _script_of(task)
    name, answers_before = _place(task)
    with occupy("scripted", name):
        model = ScriptedModel(task.events, script, name, answers_before, wire_fd)
        model.bind()
        result = await converse(task, model)
    return result.model_copy(update={"usage": model.usage})


def _place(task: Task) -> tuple[str, int]:
    if task.invocation.mode == "start":
        return os.urandom(8).hex(), 0
    given = task.invocation.executor_session_id or ""
    known = _SESSION.fullmatch(given)
    if known is None:
        message = f"unknown session {given!r}; pass the executor_session_id of the last session_bound event"
        raise RunFailed(ErrorType.SESSION_NOT_FOUND, message, origin="caller")
    return known["name"], int(known["answers"])


def _script_of(task: Task) -> JsonObject:
    inline, file = task.config.get("script"), task.config.get("script_file") or os.environ.get(SCRIPT_VARIABLE)
    if inline is None and file is None:
        raise _invalid(f"$: 'script' or 'script_file' is a required property, and {SCRIPT_VARIABLE} is not set")
    script = inline if inline is not None else _load(Path(str(file)))
    problems = validate(script, SCRIPT_SCHEMA)
    if problems:
        raise _invalid("; ".join(map(str, problems)))
    return cast("JsonObject", script)  # the schema says so


def _load(path: Path) -> JsonValue:
    try:
        text = path.read_text(encoding="utf-8")
        loaded = _yaml(text) if path.suffix in {".yaml", ".yml"} else json.loads(text)
        return cast("JsonValue", loaded)  # what it is, the schema will say
    except ImportError as error:
        message = f"{path} is YAML, and PyYAML is not installed; pip install 'ao-executor-protocol[cli]' or write JSON"
        raise RunFailed(ErrorType.DEPENDENCY_MISSING, message, origin="environment") from error
    except (OSError, ValueError) as error:
        raise _invalid(f"$.script_file: {path} cannot be read: {error}") from error


def _yaml(text: str) -> object:
    import yaml

    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ValueError(" ".join(str(error).split())) from error


def _invalid(reason: str) -> RunFailed:
    pointer, _, message = reason.partition(": ")
    details = {"violations": [{"pointer": pointer, "message": message}]}
    return refused(ErrorType.INVALID_EXECUTOR_CONFIG, f"the script cannot be played: {reason}", details)
