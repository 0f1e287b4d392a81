"""Conversations that outlive their process: one file each below HOME, locked while a run uses it (SPEC 4.3)."""

import fcntl
import json
import os
import re
from collections.abc import Callable
from typing import Any

from errors import RunFailed

SESSION_ID = re.compile(r"[0-9a-f]{32}")


class Session:
    """One conversation: its messages and the system prompt that it began with."""

    def __init__(self, executor_session_id: str, session_id: str | None, system_prompt: str | None) -> None:
        self.executor_session_id = executor_session_id
        self.session_id = session_id
        self.system_prompt = system_prompt
        self.messages: list[dict[str, Any]] = []

    def say(self, *blocks: dict[str, Any]) -> None:
        """Add what the user says; what was said before and not answered stays in front of it."""
        if self.messages and self.messages[-1]["role"] == "user":
            self.messages[-1]["content"] = [*self.messages[-1]["content"], *blocks]
        else:
            self.messages.append({"role": "user", "content": list(blocks)})

    def pending(self) -> list[dict[str, Any]]:
        """Return the tool uses that have no result, because the run was parked before them."""
        places = [place for place, message in enumerate(self.messages) if message["role"] == "assistant"]
        if not places:
            return []
        said = [block for message in self.messages[places[-1] + 1 :] for block in message["content"]]
        done = [block.get("tool_use_id") for block in said]
        uses = [block for block in self.messages[places[-1]]["content"] if block["type"] == "tool_use"]
        return [use for use in uses if use.get("id") not in done]


class SessionStore:
    """The folder of sessions. `blacked_out` takes secrets out of what is written."""

    def __init__(self, home: str, blacked_out: Callable[[Any], Any]) -> None:
        self._folder = home + "/.ao-reference-exec"
        self._blacked_out = blacked_out
        self._lock: int | None = None

    def begin(self, session_id: str | None, system_prompt: str | None) -> Session:
        """Return a new session, locked."""
        os.makedirs(self._folder, mode=0o700, exist_ok=True)  # noqa: PTH103  # pathlib costs 5 ms at every start
        session = Session(os.urandom(16).hex(), session_id, system_prompt)
        self._take_lock(session.executor_session_id)
        self.keep(session)
        return session

    def go_on(self, executor_session_id: str | None, session_id: str | None) -> Session:
        """Return a session that exists, locked.

        Raises:
            RunFailed: it is not known, or another run uses it.
        """
        found = executor_session_id or self._newest_of(session_id)
        if found is None or not SESSION_ID.fullmatch(found) or not os.access(self._path(found), os.R_OK):
            raise RunFailed("session_not_found", f"session {found or session_id!r} is not known here; start a new one")
        self._take_lock(found)
        with os.fdopen(os.open(self._path(found), os.O_RDONLY), encoding="utf-8") as file:
            kept = json.load(file)
        session = Session(found, kept["session_id"], kept["system_prompt"])
        session.messages = kept["messages"]
        return session

    def keep(self, session: Session) -> None:
        """Write a session."""
        document = {
            "session_id": session.session_id,
            "system_prompt": session.system_prompt,
            "messages": session.messages,
        }
        path = self._path(session.executor_session_id)
        written = os.open(path + ".new", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(written, "w", encoding="utf-8") as file:
            json.dump(self._blacked_out(document), file)
        os.rename(path + ".new", path)  # noqa: PTH104

    def release(self) -> None:
        """Let other runs have the session."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _take_lock(self, executor_session_id: str) -> None:
        lock = os.open(self._path(executor_session_id, ".lock"), os.O_WRONLY | os.O_CREAT, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            message = f"session {executor_session_id} is in use by another run; try again when that has ended"
            raise RunFailed("session_busy", message) from None
        self._lock = lock

    def _newest_of(self, session_id: str | None) -> str | None:
        from pathlib import Path

        paths = sorted(Path(self._folder).glob("*.json"), key=lambda path: path.stat().st_mtime_ns, reverse=True)
        named = (path for path in paths if json.loads(path.read_text(encoding="utf-8"))["session_id"] == session_id)
        return next((path.stem for path in named), None)

    def _path(self, executor_session_id: str, suffix: str = ".json") -> str:
        return f"{self._folder}/{executor_session_id}{suffix}"
