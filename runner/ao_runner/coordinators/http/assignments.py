"""A run as the server hands it out, as a run of this worker's."""

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, Literal

from pydantic import JsonValue

from ao_protocol.documents import with_typed_servers
from ao_protocol.identifiers import is_identifier
from ao_protocol.wire import JsonObject
from ao_runner.coordinators.http.answers import is_name
from ao_runner.coordinators.http.identity import RunnerIdentity
from ao_runner.coordinators.http.scripts import Script
from ao_runner.coordinators.port import Assignment, RunKey
from ao_runner.store.records import Run, Session

MODES: Final[Mapping[JsonValue, Literal["start", "resume"]]] = {"start_session": "start", "resume_session": "resume"}
PASSED_ON: Final = ("parent_session_id", "execution_mode", "scope", "traceparent")
"""What of a run becomes metadata of its invocation."""


class UnusableRun(ValueError):
    """A run that cannot be performed as it was handed out. The text begins with an error type."""


@dataclass(frozen=True, slots=True)
class Given:
    """What the server says of a run besides the run itself."""

    session: JsonObject
    """Its session; empty for a start, which has none yet."""
    blueprint: JsonObject | None = None
    script: Script | None = None
    """The one that the blueprint names."""
    is_resolved: bool = True
    """Whether the server has filled in the blueprint's placeholders."""


@dataclass(frozen=True, slots=True)
class OfferedRun:
    """A run as it came."""

    run_id: str
    session_id: str
    document: JsonObject

    @property
    def mode(self) -> Literal["start", "resume"]:
        """Whether the session is new.

        Raises:
            UnusableRun: it is neither a start nor a resume.
        """
        kind = self.document.get("type")
        mode = MODES.get(kind) if isinstance(kind, str) else None
        if mode is None:
            raise UnusableRun(f"invalid_invocation: type is {kind!r}, expected one of {', '.join(map(str, MODES))}")
        return mode

    def agent_name(self, known: JsonObject) -> str | None:
        """Return the agent's name, as the run or what is `known` of its session says."""
        return _text(self.document, "agent_name") or _text(known, "agent_name")

    def to_assignment(self, identity: RunnerIdentity, given: Given, now: datetime) -> Assignment:
        """Return the assignment.

        `timeout_at` is left alone: it says how long a run may wait for a worker, not how long it may take.

        Raises:
            UnusableRun: saying what is missing.
        """
        known = given.session
        mode = self.mode
        if not is_identifier(self.session_id):
            raise UnusableRun("invalid_invocation: session_id is longer than a name may be (SPEC 4.1)")
        parameters = self.document.get("parameters")
        if not isinstance(parameters, dict):
            raise UnusableRun(f"invalid_invocation: parameters are {parameters!r}, expected an object")
        executor_session_id = known.get("executor_session_id")
        if mode == "resume" and not isinstance(executor_session_id, str):
            raise UnusableRun(
                f"session_not_found: session {self.session_id} has no executor session to go on with; start a new one"
            )
        attempt = self.document.get("attempt")
        blueprint, commands_dir = _blueprint(self.agent_name(known), identity, given)
        return Assignment(
            key=RunKey(self.run_id, attempt if isinstance(attempt, int) and attempt > 0 else 1),
            session=Session(
                session_id=self.session_id,
                created_at=_text(known, "created_at") or now.isoformat(),
                executor_name=identity.profile,
                executor_path=identity.command,
                project_dir=_text(self.document, "project_dir") or _text(known, "project_dir") or identity.project_dir,
                blueprint=blueprint,
                executor_config=identity.config
                if commands_dir is None
                else {
                    **identity.config,
                    "commands_dir": commands_dir,
                },
                executor_session_id=executor_session_id if isinstance(executor_session_id, str) else None,
            ),
            run=Run(self.run_id, self.session_id, mode, parameters, started_at=now.isoformat(), status="queued"),
            metadata={name: value for name in PASSED_ON if (value := self.document.get(name)) is not None},
            is_resolved=given.is_resolved,
            queued_seconds=_age_seconds(self.document.get("created_at"), now),
        )


def offered_run(document: JsonObject) -> OfferedRun | None:
    """Return a run as it came, or None where it says too little even to be refused."""
    run_id, session_id = document.get("run_id"), document.get("session_id")
    return OfferedRun(run_id, session_id, document) if is_name(run_id) and is_name(session_id) else None


def _blueprint(agent_name: str | None, identity: RunnerIdentity, given: Given) -> tuple[JsonObject, str | None]:
    """Return the blueprint, and the folder of its command where the executor has to be told.

    Beneath what the server says is what this worker itself says of an agent of its own.
    """
    name = agent_name or identity.profile
    own = identity.agent(name)
    fields: JsonObject = {"name": name, **(_set_fields(own.document) if own is not None else {})}
    commands_dir = own.commands_dir if own is not None else None
    if identity.executor_type == "procedural":
        fields["type"] = "procedural"
    fields |= _set_fields(given.blueprint or {})
    if (script := given.script) is not None:
        fields["command"], commands_dir = shlex.quote(script.file), str(script.folder)
        if script.parameters_schema is not None:
            fields.setdefault("parameters_schema", script.parameters_schema)
    if fields.get("type") == "procedural":
        fields.setdefault("parameters_schema", {"type": "object"})  # the server takes any where there is none
    return with_typed_servers(fields), commands_dir


def _set_fields(document: JsonObject) -> JsonObject:
    return {name: value for name, value in document.items() if value is not None}


def _text(document: JsonObject, name: str) -> str | None:
    value = document.get(name)
    return value if isinstance(value, str) and value else None


def _age_seconds(created_at: JsonValue, now: datetime) -> float:
    try:
        moment = datetime.fromisoformat(created_at) if isinstance(created_at, str) else now
    except (ValueError, OverflowError):
        return 0.0
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return max(0.0, (now - aware).total_seconds())
