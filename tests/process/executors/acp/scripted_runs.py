"""Runs of the executors with `scripted_agent.py`, and what that agent received."""

import json
import sys
from pathlib import Path
from typing import Any

import acp.schema
from pydantic import BaseModel

from tests.process.executors.driver import Run, installed, invocation, run

AGENT = str(Path(__file__).with_name("scripted_agent.py"))
ANY = [installed("ao-acp-exec")]
CLAUDE = [installed("ao-claude-acp-exec")]
REQUESTS: dict[str, type[BaseModel]] = {
    "initialize": acp.schema.InitializeRequest,
    "session/new": acp.schema.NewSessionRequest,
    "session/load": acp.schema.LoadSessionRequest,
    "session/resume": acp.schema.ResumeSessionRequest,
    "session/set_mode": acp.schema.SetSessionModeRequest,
    "session/set_config_option": acp.schema.SetSessionConfigOptionSelectRequest,
    "session/prompt": acp.schema.PromptRequest,
    "session/cancel": acp.schema.CancelNotification,
}


def config(*traps: str, **settings: Any) -> dict[str, Any]:
    return {"command": [sys.executable, AGENT, *traps], **settings}


def ask(folder: Path, *traps: str, program: list[str] | None = None, **fields: Any) -> Run:
    """Ask an agent with these traps in a folder; `settings` is added to the configuration."""
    whole = config(*traps, **fields.pop("settings", {}))
    return run(program or ANY, invocation(project_dir=str(folder), executor_config=whole, **fields))


def resume(folder: Path, *traps: str, **fields: Any) -> Run:
    return ask(folder, *traps, program=CLAUDE, mode="resume", executor_session_id=str(folder), **fields)


def received(folder: Path) -> list[dict[str, Any]]:
    """Return what the agent received. Each request has the form that the official models of the protocol demand."""
    lines = (folder / "received.jsonl").read_text(encoding="utf-8").splitlines()
    messages: list[dict[str, Any]] = [json.loads(line) for line in lines]
    for message in messages:
        if "method" in message:
            REQUESTS[message["method"]].model_validate(message["params"], strict=True)
    return messages


def methods(folder: Path) -> list[str]:
    return [message["method"] for message in received(folder) if "method" in message]


def texts(ended: Run, event_type: str) -> list[str]:
    return ["".join(block["text"] for block in event["content"]) for event in ended.of_type(event_type)]
