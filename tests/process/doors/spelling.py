"""How the doors spell a request of the table: arguments of a command, or the fields of a JSON document."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from tests.process.doors.table import AGENTS, COMMON, SESSIONS, TRACE

OPTIONS: Final = {
    "agent": "BLUEPRINT|nobody.json",
    "parameters": "parameters|--param|--params|[Pp]rompt",
    "session": "SESSION|session",
    "session_id": "--session-id",
    "run_id": "--run-id",
    "project_dir": "--project-dir",
    "profile": "--profile",
    "executor_config": "--config",
    "output_schema": "output[-_ ]schema",
    "output_schema_name": "--output-schema-name",
    "output_schema_options": "--output-option|output_schema_options",
    "no_schema": "--no-schema",
    "keep_rejected": "--no-keep-rejected",
    "timeout_seconds": "--timeout",
    "priority": "--priority",
    "not_before": "--not-before",
    "requeue": "--requeue-at-reset",
    "metadata": "--metadata",
    "labels": "--label|labels",
    "attachments": "--attach|attachments|Attachment",
    "requires": "--require",
    "parent_session_id": "--parent-session",
    "execution_mode": "--execution-mode",
    "model_script": "--model-script",
}
"""What a refusal of a command calls each field."""
MEMBERS: Final = {
    "agent": "agent_name",
    "session": "session_id",
    "requires": r"additional_demands\.tags",
}
"""What a document calls a field that has another name there."""
MAX_ARGUMENT_CHARACTERS: Final = 100_000


class Files:
    """Files that a door needs for its requests."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._count = 0

    def write(self, field: str, document: object) -> str:
        """Return the path of a new file with a document, or with a text, which is named by its field."""
        self._count += 1
        path = self._folder / f"{field}-{self._count}.json"
        path.write_text(document if isinstance(document, str) else json.dumps(document))
        return str(path)


def placed(value: Any, folder: Path) -> Any:
    """Return a value in which `@` is replaced by the folder of a door."""
    if isinstance(value, list):
        return [placed(one, folder) for one in value]
    if isinstance(value, dict):
        return {name: placed(one, folder) for name, one in value.items()}
    return value.replace("@", str(folder), 1) if isinstance(value, str) and value.startswith("@/") else value


def arguments_of(asked: Mapping[str, Any], folder: Path, files: Files) -> tuple[list[str], str | None]:
    """Return a request as arguments behind the name of a command, without the session, and its stdin."""
    argv, stdin = [], None
    if "agent" in asked:
        argv.append(f"{asked['agent']}.json")
    parameters = asked["parameters"]
    prompt = parameters.get("prompt") if isinstance(parameters, dict) and len(parameters) == 1 else None
    is_start = "agent" in asked
    if isinstance(prompt, str) and (len(prompt) > MAX_ARGUMENT_CHARACTERS or ("\0" in prompt and not is_start)):
        argv, stdin = [*argv, "--prompt", "-"], prompt
    elif isinstance(prompt, str) and prompt.isprintable():
        argv += ["--prompt", prompt]
    else:
        argv += ["--params", files.write("parameters", parameters)]
    written: dict[str, Callable[[Any], list[str]]] = {
        "session_id": lambda value: ["--session-id", value],
        "run_id": lambda value: ["--run-id", value],
        "project_dir": lambda value: ["--project-dir", placed(value, folder)],
        "profile": lambda value: ["--profile", value],
        "executor_config": lambda value: (
            settings_of(value) if value == COMMON else ["--config", files.write("executor_config", value)]
        ),
        "output_schema": lambda value: ["--output-schema", files.write("output_schema", value)],
        "output_schema_name": lambda value: ["--output-schema-name", value],
        "output_schema_options": lambda value: [
            part for name, one in value.items() for part in ("--output-option", f"{name}={one}")
        ],
        "no_schema": lambda _: ["--no-schema"],
        "keep_rejected": lambda _: ["--no-keep-rejected"],
        "timeout_seconds": lambda value: ["--timeout", str(value)],
        "priority": lambda value: ["--priority", str(value)],
        "not_before": lambda value: ["--not-before", value],
        "requeue": lambda _: ["--requeue-at-reset"],
        "metadata": lambda value: (
            ["--traceparent", TRACE]
            if value == {"traceparent": TRACE}
            else [part for name, one in value.items() for part in ("--metadata", f"{name}={json.dumps(one)}")]
        ),
        "labels": lambda value: [part for name, text in value.items() for part in ("--label", f"{name}={text}")],
        "attachments": lambda value: [
            part for one in placed(value, folder) for part in ("--attach", f"{one['path']}:{one['media_type']}")
        ],
        "requires": lambda value: [part for tag in value for part in ("--require", tag)],
        "model_script": lambda value: ["--model-script", files.write("model_script", value)],
    }
    for name, value in asked.items():
        if name in written:
            argv += written[name](value)
    return argv, stdin


def settings_of(config: Mapping[str, Any]) -> list[str]:
    """Return common settings as options."""
    tools = [part for name in config["allowed_tools"] for part in ("--allow-tool", name)]
    named = ["--model", config["model"], "--reasoning-effort", config["reasoning_effort"], "--access", config["access"]]
    return [*named, *tools, *([] if config["show_reasoning"] else ["--hide-reasoning"])]


def document_of(asked: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Return a request as the body of `POST /runs`, with the names that are the same in all documents."""
    document: dict[str, Any] = {"type": "resume_session" if "session" in asked else "start_session"}
    for name, value in asked.items():
        if name == "requires":
            document["additional_demands"] = {"tags": value}
        elif name == "requeue":
            document["requeue_at_reset"] = value
        elif name == "session":
            document["session_id"] = value
        elif name != "agent":
            document[name] = placed(value, folder)
        elif value is not None:
            document["agent_name"] = value
    return document


def line_of(asked: Mapping[str, Any], folder: Path, run_id: str) -> dict[str, Any]:
    """Return a request as a line of a pipe. A session that goes on brings its agent and the executor's id along."""
    document = {name: placed(value, folder) for name, value in asked.items() if name not in {"agent", "session"}}
    agent = asked.get("agent")
    if "session" in asked:
        session = asked["session"]
        agent = SESSIONS.get(session, "plain")
        document |= {"session_id": session, "executor_session_id": f"bound-{session}"}
    # A path, since the commands of a procedural agent are found beside its file.
    document["blueprint"] = f"{agent}.json"
    return {"run_id": run_id, **document}


def resolved_blueprint(asked: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the agent as a coordinator hands it out."""
    return AGENTS.get(asked["agent"]) if asked.get("agent") else None
