"""What a door leaves behind: rows of the store, and what an executor was told of a run that no store has."""

import json
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from ao_runner.store.agent_table import StoredAgent
from ao_runner.store.opening import StorePlace
from ao_runner.store.records import Run, Session
from ao_runner.store.schema_table import NamedSchema
from ao_runner.store.store_file import FILE_NAME
from tests.process.doors.table import AGENTS, KEPT, NAMED, PARENT, SESSIONS, SIMULATED, UNBOUND

AT: Final = "2026-01-01T00:00:00.000Z"
TELLER: Final = Path(__file__).parents[2] / "miniatures" / "shows_its_invocation_under_contracts.py"
PROFILES: Final = ("teller", "other")

RUN_COLUMNS: Final = (
    "mode", "parameters", "contract", "profile", "timeout_seconds", "metadata", "labels", "attachments", "model_script",
    "requires",
    "priority", "not_before", "requeue", "parent_session_id", "execution_mode", "input_responses",
)  # fmt: skip
SESSION_COLUMNS: Final = {
    "agent_name": "agent_name",
    "blueprint": "blueprint",
    "project_dir": "project_dir",
    "executor_config": "executor_config",
    "profile": "session_profile",
    "parent_session_id": "session_parent",
    "is_simulated": "is_simulated",
}
"""The columns of a session, with their names in a row of the table."""
NOT_COMPARED: Final = {
    "run_id": "an id",
    "session_id": "an id; that of the caller is looked up by it",
    "schema_name": "derived from the contract",
    "created_at": "a time",
    "queued_at": "a time",
    "started_at": "a time",
    "ended_at": "of the end",
    "status": "of the end",
    "error_type": "of the end",
    "record": "of the end",
    "cost_usd": "of the end",
    "input_tokens": "of the end",
    "output_tokens": "of the end",
    "attempt": "of a worker",
    "owner": "of a worker",
    "has_begun": "of a worker",
    "lease_until": "of a worker",
    "stop_wanted": "of a worker",
    "host": "of a worker",
    "executor_session_id": "of the executor",
    "executor_name": "a worker finds the executor of the profile again",
    "executor_path": "a worker finds the executor of the profile again",
    "announced": "of the end",
    "succeeds": "of a copy",
    "batch_id": "an id",
    "aside": "of the inbox",
}
"""The columns of both tables that no request sets, with the reason."""
_JSON: Final = {
    "parameters",
    "contract",
    "metadata",
    "labels",
    "attachments",
    "requires",
    "input_responses",
    "blueprint",
    "executor_config",
}


def prepare(home: Path, settings: Mapping[str, Any] = MappingProxyType({}), host: str | None = None) -> None:
    """Fill a store with what the requests of the table refer to: agents, schemas, sessions; and write the profiles.

    Args:
        home: The folder of the store.
        settings: Those of the agents.
        host: The host of the sessions.
    """
    (home / "profiles").mkdir(parents=True)
    for name in PROFILES:
        (home / "profiles" / f"{name}.yaml").write_text(f"executor: {TELLER}\n")
    work = home.parent / "work"
    for folder in (work, home.parent / "other"):
        folder.mkdir(exist_ok=True)
    with StorePlace(home).open() as store:
        for name, document in AGENTS.items():
            (work / f"{name}.json").write_text(json.dumps(document))
            (work / "note.txt").write_text("A note.")
            store.agents.put(StoredAgent(name, {**document, **settings}, "active", AT, AT))
        for name, schema in NAMED.items():
            store.schemas.put(NamedSchema(name, "", schema, AT))
        for session_id, agent in {**SESSIONS, **dict.fromkeys((UNBOUND, PARENT, SIMULATED), "plain")}.items():
            bound = None if session_id == UNBOUND else f"bound-{session_id}"
            names = ("teller", str(TELLER), str(work))
            session = Session(
                session_id, AT, *names, AGENTS[agent], KEPT, bound, profile="teller", host=host,
                is_simulated=session_id == SIMULATED,
            )  # fmt: skip
            run = Run(f"first-{session_id}", session_id, "start", {"prompt": "First", "topic": "first"}, AT)
            store.runs.begin(run, "nobody", session)
            store.runs.end(run.run_id, "completed", AT, None)


def read_rows(home: Path, after: int = 0) -> dict[int, dict[str, Any]]:
    """Return the runs of a store by number, with their sessions, without those that were prepared."""
    with closing(sqlite3.connect(home / FILE_NAME)) as connection:
        connection.row_factory = sqlite3.Row
        runs = connection.execute(
            "SELECT rowid AS number, * FROM runs WHERE rowid > ? ORDER BY rowid", (after,)
        ).fetchall()
        sessions = {
            run["session_id"]: connection.execute(
                "SELECT * FROM sessions WHERE session_id = ?", (run["session_id"],)
            ).fetchone()
            for run in runs
        }
    return {run["number"]: _row(run, sessions[run["session_id"]], home.parent) for run in runs}


class News:
    """Finds the run that each request adds to a store."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._last = max(read_rows(home))

    def row(self) -> dict[str, Any] | None:
        """Return the row that was added since the last call, if there is one."""
        added = read_rows(self._home, self._last)
        assert len(added) < 2, "one request was two runs"
        self._last = max(added, default=self._last)
        return next(iter(added.values()), None)


def columns_of(home: Path) -> set[str]:
    """Return the columns of both tables."""
    with closing(sqlite3.connect(home / FILE_NAME)) as connection:
        tables = [connection.execute(f"PRAGMA table_xinfo({table})").fetchall() for table in ("runs", "sessions")]
    return {column[1] for table in tables for column in table}


def _row(run: sqlite3.Row, session: sqlite3.Row, folder: Path) -> dict[str, Any]:
    values = {name: run[name] for name in RUN_COLUMNS}
    values |= {shown: session[name] for name, shown in SESSION_COLUMNS.items()}
    row = {name: json.loads(value) if name in _JSON and value is not None else value for name, value in values.items()}
    row["execution_mode"] = row["execution_mode"] or "sync"
    return {**without_folder(row, folder), "run_id": run["run_id"], "session_id": run["session_id"]}


def without_folder(row: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Return a row in which `@` stands for the folder of the door."""
    texts = {name: value.replace(str(folder), "@") for name, value in row.items() if isinstance(value, str)}
    config = {
        name: value.replace(str(folder), "@") if isinstance(value, str) else value
        for name, value in (row.get("executor_config") or {}).items()
    }
    attachments = [{name: value.replace(str(folder), "@") for name, value in one.items()} for one in row["attachments"]]
    return {**row, **texts, "executor_config": config, "attachments": attachments}


def told(invocation: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Return the columns of a row that an invocation shows."""
    row = {
        "agent_name": invocation["agent_name"],
        "blueprint": invocation["agent_blueprint"],
        "project_dir": invocation["project_dir"],
        "executor_config": invocation["executor_config"],
        "mode": invocation["mode"],
        "parameters": invocation["parameters"],
        "timeout_seconds": invocation["limits"].get("timeout_seconds"),
        "metadata": invocation["metadata"],
        "attachments": invocation.get("attachments", []),
        "contract": _contract(invocation),
        "run_id": invocation["run_id"],
        "session_id": invocation["session_id"],
    }
    return without_folder(row, folder)


def shown_by_an_invocation(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the columns of an expected row in the form in which an invocation shows them."""
    names = (
        "agent_name", "project_dir", "executor_config", "mode", "parameters", "timeout_seconds", "metadata",
        "attachments",
    )  # fmt: skip
    shown = {name: row[name] for name in names}
    contract = row["contract"] or {}
    kept = {name: contract[name] for name in ("schema", "options") if contract.get(name)}
    source = {"source": contract["source"]} if "schema" in contract else {}
    blueprint = dict(row["blueprint"])
    if contract.get("source") == "none":
        blueprint.pop("default_output_schema", None)
    return {**shown, "blueprint": blueprint, "contract": {**source, **kept} or None}


def _contract(invocation: Mapping[str, Any]) -> dict[str, Any] | None:
    names = {
        "output_schema": "schema",
        "output_schema_source": "source",
        "output_schema_options": "options",
    }
    return {short: invocation[name] for name, short in names.items() if invocation.get(name)} or None
