"""A run as a line of JSON, for whoever pipes runs into a worker, and the ids that stood on earlier lines."""

from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from ao_protocol.contracts.contract import USUAL_DEFAULTS
from ao_protocol.documents import Blueprint
from ao_protocol.errors import ErrorType
from ao_protocol.framing import LineTooLong, NotIJson, decode_object
from ao_protocol.identifiers import is_identifier
from ao_protocol.json_path import ROOT, below
from ao_protocol.wire import Identifier, JsonObject, Name, Seconds, WireModel, problems_of
from ao_runner.blueprints.loading import is_free, load_blueprint, nearest, oddities_of
from ao_runner.coordinators.port import Assignment, RunKey
from ao_runner.errors import RunnerError
from ao_runner.named_schemas.remarks import MAX_CHARACTERS_BESIDE_RUNS, remarks_below
from ao_runner.runs.acceptance import CallerDemand, demand_record
from ao_runner.runs.run_request import new_run_id, new_session_id
from ao_runner.store.records import Run, Session

REMEMBERED: Final = 100_000
"""So many of the latest ids are known for certain, and at most twice as many are kept: some 20 MB."""


@dataclass(slots=True)
class RunIds:
    """Knows the latest ids, and those of all runs that are not over.

    An id that was forgotten and comes again begins another attempt at the run: `generation` has grown since, which is
    to be added to the number of the attempt. So it is too when the lines are piped in again after a restart.
    """

    remembered: int = REMEMBERED
    generation: int = 0
    _latest: set[str] = field(default_factory=set)
    _before: set[str] = field(default_factory=set)
    _open: set[str] = field(default_factory=set)

    def add(self, run_id: str) -> bool:
        """Take the id of a run that begins; false where it is known already."""
        if run_id in self._latest or run_id in self._before or run_id in self._open:
            return False
        if len(self._latest) >= self.remembered:
            self._before, self._latest = self._latest, set()
            self.generation += 1
        self._latest.add(run_id)
        self._open.add(run_id)
        return True

    def end(self, run_id: str) -> None:
        """Hear that a run is over."""
        self._open.discard(run_id)


EXAMPLE: Final = '{"blueprint": "agent.yaml", "prompt": "Hi"}'


@dataclass(frozen=True, slots=True)
class RunDefaults:
    """What a run has that its line does not say."""

    executor_name: str
    executor_path: str
    project_dir: str
    executor_config: JsonObject = field(default_factory=dict)
    blueprint: JsonObject | None = None
    attempt: int = 1
    """The number of every attempt. Under another one the same id may be piped in again, on the same home."""


class RunLine(WireModel):
    """The fields of a line. `blueprint` is one, or the path of one; `prompt` is short for `parameters.prompt`."""

    blueprint: JsonObject | Name | None = None
    parameters: JsonObject = {}
    prompt: str | None = None
    run_id: Identifier | None = None
    session_id: Identifier | None = None
    executor_session_id: Identifier | None = None
    profile: Name | None = None
    project_dir: Name | None = None
    output_schema: JsonObject | None = None
    output_schema_options: JsonObject = {}
    timeout_seconds: Seconds | None = None
    metadata: JsonObject = {}


@dataclass(frozen=True, slots=True)
class CancelLine:
    """`{"cancel": "run_1"}`: the run is to end."""

    run_id: str


class InvalidRunLine(ValueError):
    """A line is no run, or one that cannot be performed. The ids are those of the line, where it has usable ones."""

    def __init__(
        self,
        message: str,
        *,
        error_type: ErrorType = ErrorType.INVALID_INVOCATION,
        run_id: str | None = None,
        session_id: str | None = None,
    ) -> None:
        super().__init__(message)
        self.error_type = error_type
        self.run_id = run_id
        self.session_id = session_id


def read_run_line(line: bytes | LineTooLong, defaults: RunDefaults) -> tuple[Assignment | CancelLine, list[str]]:
    """Return the run, or the cancel, that a line asks for, and what is said of its unknown fields.

    Raises:
        InvalidRunLine: saying what was found and what was expected.
    """
    if isinstance(line, LineTooLong):
        raise InvalidRunLine(str(line), error_type=ErrorType.INVOCATION_TOO_LARGE)
    try:
        document = decode_object(line)
    except NotIJson as error:
        message = f"{error}, expected a run such as {EXAMPLE}"
        raise InvalidRunLine(message, error_type=ErrorType.INVALID_JSON) from error
    if "cancel" in document:
        run_id = document["cancel"]
        if not isinstance(run_id, str):
            raise InvalidRunLine(f"$.cancel: expected a run_id, found {run_id!r}")
        return CancelLine(run_id), []
    try:
        assignment, remarks = _assignment(RunLine.model_validate(document), defaults)
        return assignment, [*_unknown_fields(document), *remarks]
    except ValidationError as error:
        raise InvalidRunLine("; ".join(problems_of(error, document)), **_ids_of(document)) from error
    except InvalidRunLine as error:
        raise InvalidRunLine(str(error), **_ids_of(document)) from error


def _ids_of(document: JsonObject) -> dict[str, Any]:
    """Return the ids of a line that can be those of an event."""
    found = {name: document.get(name) for name in ("run_id", "session_id")}
    return {name: value for name, value in found.items() if is_identifier(value)}


def _unknown_fields(document: JsonObject) -> list[str]:
    known = RunLine.model_fields
    return [
        f"{below(ROOT, name)}: unknown field, ignored{nearest(name, known)}"
        for name in document
        if name not in known and not is_free(name)
    ]


def _assignment(asked: RunLine, defaults: RunDefaults) -> tuple[Assignment, list[str]]:
    document, blueprint = _blueprint(asked, defaults)
    remarks = oddities_of(document, blueprint, below(ROOT, "blueprint"))
    own_schema: JsonObject = {"output_schema": asked.output_schema}
    remarks += remarks_below(own_schema, own_schema, ROOT, MAX_CHARACTERS_BESIDE_RUNS)
    now = datetime.now(UTC).isoformat()
    session = Session(
        session_id=asked.session_id or new_session_id(),
        created_at=now,
        executor_name=defaults.executor_name,
        executor_path=defaults.executor_path,
        project_dir=str(Path(asked.project_dir or defaults.project_dir).absolute()),
        blueprint=document,
        executor_config=defaults.executor_config,
        executor_session_id=asked.executor_session_id,
        profile=asked.profile,
    )
    demand = CallerDemand(schema=asked.output_schema, options=asked.output_schema_options)
    run = Run(
        run_id=asked.run_id or new_run_id(),
        session_id=session.session_id,
        mode="start" if asked.executor_session_id is None else "resume",
        parameters=asked.parameters if asked.prompt is None else {**asked.parameters, "prompt": asked.prompt},
        started_at=now,
        status="queued",
        contract=demand_record(blueprint, demand, USUAL_DEFAULTS),
    )
    assignment = Assignment(
        RunKey(run.run_id, defaults.attempt),
        session,
        run,
        profile=asked.profile,
        timeout_seconds=asked.timeout_seconds,
        metadata=asked.metadata,
    )
    return assignment, remarks


def _blueprint(asked: RunLine, defaults: RunDefaults) -> tuple[JsonObject, Blueprint]:
    if isinstance(asked.blueprint, str):
        try:
            loaded = load_blueprint(Path(asked.blueprint), may_wait=False)
        except RunnerError as error:
            raise InvalidRunLine(f"$.blueprint: {error}") from error
        return loaded.document, loaded.blueprint
    document = defaults.blueprint if asked.blueprint is None else asked.blueprint
    if document is None:
        raise InvalidRunLine(f"$.blueprint: missing, expected a run such as {EXAMPLE}")
    try:
        return document, Blueprint.model_validate(document)
    except ValidationError as error:
        raise InvalidRunLine(f"$.blueprint: {'; '.join(problems_of(error, document))}") from error
