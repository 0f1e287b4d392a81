"""Accept a request for a run: the one place where a request becomes a session and a run.

Command line, HTTP, MCP, pipe, Python and coordinators translate what they were given into a `NewRun`. `accept` checks
it and returns what is stored or performed: fields, refusals and their paths are the same wherever a run is asked for.
"""

import json
import math
import re
import secrets
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from pathlib import Path
from typing import Final, NamedTuple

from pydantic import ValidationError

from ao_protocol.contracts import InvalidOptions, InvalidSchema, Problem, SchemaSource
from ao_protocol.contracts.contract import (
    ContractOverridden,
    Demand,
    OutputContract,
    default_options,
    demand_of,
    options_to_send,
    resolve_contract,
)
from ao_protocol.documents import Blueprint
from ao_protocol.framing import MAX_IDENTIFIER_BYTES, MAX_INVOCATION_BYTES, is_identifier
from ao_protocol.inputs import PROMPT_SCHEMA, ParametersInvalid, check_against
from ao_protocol.json_path import below
from ao_protocol.wire import JsonObject, problems_of
from ao_protocol.written import check_interoperable, check_name
from ao_runner.blueprints.loading import LoadedBlueprint
from ao_runner.blueprints.placeholders import with_stand_ins
from ao_runner.discovery import Executor, ExecutorNotFound, locate_executor
from ao_runner.errors import RunnerError
from ao_runner.profiles import InvalidProfile, ProfileNotFound, load_profile
from ao_runner.store.records import OPEN_STATUSES, Run, RunTerms, Session, check_tag, timestamp
from ao_runner.store.store import Store
from ao_runner.store.store_errors import BATCH, RowDamaged

DEFAULT_EXECUTORS: Final[Mapping[str, str]] = {"autonomous": "claude-code", "procedural": "procedural"}
"""The default executor for each type of agent."""
MAX_SHOWN_CHARACTERS: Final = 200
TERMS: Final = [one.name for one in fields(RunTerms)]


@dataclass(frozen=True, slots=True, kw_only=True)
class NewRun(RunTerms):
    """A request for a run. What is not said has the default of its field."""

    parameters: JsonObject
    """Those of the agent's `parameters_schema`, else `{prompt}`; empty with `input_responses`."""
    blueprint: LoadedBlueprint | None = None
    """The agent of a new session; None continues `session_id`."""
    session_id: str | None = None
    """The session to continue, or the id of the new one."""
    run_id: str | None = None
    executor_session_id: str | None = None
    """The executor's own id of a session that another coordinator knows: the run resumes it."""
    project_dir: str | None = None
    """The folder that the agent works in; by default that of the place where the request arrives."""
    executor_config: JsonObject = field(default_factory=dict)
    executor: Executor | None = None
    """The executor of a new session if no profile names it."""
    output_schema: JsonObject | None = None
    output_schema_name: str | None = None
    output_schema_options: JsonObject = field(default_factory=dict)
    no_schema: bool = False
    """Whether the answer is free text, although the agent has a default schema."""
    keep_rejected: bool = True
    """Whether answers that do not fit are stored with the run."""
    batch_id: str | None = None
    """The batch that the run belongs to, if any."""
    succeeds: str | None = None
    """The run that this one repeats, if any."""
    is_simulated: bool = False
    """Whether a script answers that the place of the request plays itself."""

    @property
    def has_script(self) -> bool:
        """Whether a model script answers instead of a model."""
        return self.is_simulated or self.model_script is not None


@dataclass(frozen=True, slots=True)
class Reception:
    """The place where requests arrive."""

    environ: Mapping[str, str]
    home: Path
    project_dir: str
    store: Store | None = None
    """The store of sessions and named schemas; None for a place that has neither."""
    is_queued: bool = True
    """Whether runs are queued, so that parameters that do not fit are refused here; otherwise the run itself does."""
    batch_id: str | None = None
    """The batch of its runs, if they are no repetitions."""
    executors: dict[str, Executor] = field(default_factory=dict)
    """The executors that are known, by profile: a batch looks for each one once."""


class AcceptedRun(NamedTuple):
    """A checked run: what is stored, and performed here or by a worker."""

    session: Session
    run: Run
    is_new_session: bool
    attempts: int | None = None
    """The maximum number of answers; None without a contract, or if the agent is not asked again."""


def enqueue(store: Store, *accepted: AcceptedRun) -> None:
    """Queue runs, all or none of them, as a step of a transaction.

    Raises:
        ConstraintBroken: A session exists.
        SessionUnknown: A session was deleted meanwhile.
        RepeatedBefore: One of them is to take the place of a run of its batch which another one has taken.
    """
    if repeated := [one.run.succeeds for one in accepted if one.run.succeeds and one.run.batch_id]:
        store.runs.check_unrepeated(repeated)
    store.sessions.add(*(one.session for one in accepted if one.is_new_session))
    for run in [one.run for one in accepted if not one.is_new_session]:
        if run.parent_session_id is None:
            store.sessions.resolve(run.session_id)
        else:
            store.sessions.set_parent(run.session_id, run.parent_session_id)
    now = timestamp(store.now())
    store.queue.add(*(replace(one.run, started_at=now) for one in accepted))


class RefusalReason(StrEnum):
    """Why a request is refused, for programs."""

    OWN_PARENT = "own_parent"
    PARENT_NOT_FOUND = "parent_not_found"
    SESSION_EXISTS = "session_exists"
    NO_FOLDER = "no_folder"
    STATELESS = "procedural_agent_no_resume"
    PARAMETERS = "parameter_validation_failed"
    FIELD = "invalid_field"
    TWO_SCHEMAS = "two_schemas"
    OPTIONS = "invalid_options"
    CONTRACT = "contract_refused"
    NO_STORE = "no_store"
    CANNOT_RESUME = "cannot_resume"
    TOO_LARGE = "too_large"


@dataclass(eq=False)
class RunRefused(RunnerError):
    """A request that cannot become a run. `problems` has the path in the request of each fault, if it has one."""

    reason: RefusalReason
    message: str
    problems: Sequence[Problem] = ()
    facts: JsonObject = field(default_factory=dict)
    """Further facts for programs."""

    def __str__(self) -> str:
        return self.message


def _refused(reason: RefusalReason, place: str, message: str) -> RunRefused:
    """Return the refusal of one field; `place` is its path in the request."""
    problem = Problem(place, message)
    return RunRefused(reason, str(problem), [problem])


def new_run_id() -> str:
    """Return a unique run id."""
    return f"run_{secrets.token_hex(8)}"


def new_session_id() -> str:
    """Return a unique session id."""
    return f"ses_{secrets.token_hex(8)}"


def new_batch_id() -> str:
    """Return a unique id of a batch."""
    return f"{BATCH}{secrets.token_hex(8)}"


def accept(asked: NewRun, at: Reception) -> AcceptedRun:
    """Check a request, and return the session and the run that it becomes. Nothing is written.

    Raises:
        RunRefused: Something is missing, unknown or does not fit.
        SessionUnknown: There is no such session.
        SchemaNotFound: No named schema has this name.
        UnacceptableSchema: The schema is not acceptable.
        NotInteroperable: A document holds what no invocation can.
    """
    _check_fields(asked)
    if asked.attachments:
        from ao_runner.runs.attaching import problems_of_attachments  # few runs have any

        if problems := problems_of_attachments(
            asked.attachments, reads_files=at.store is not None and not at.is_queued
        ):
            path, _, message = problems[0].partition(": ")
            raise _refused(RefusalReason.FIELD, path, message)
    _check_parent(asked, at)
    if asked.blueprint is None:
        session = _session_to_continue(asked, at)
        blueprint = blueprint_of(session)
    else:
        session = _new_session(asked, asked.blueprint, at)
        blueprint = asked.blueprint.blueprint
    is_new = asked.blueprint is not None and asked.executor_session_id is None
    if not at.is_queued and at.store is not None and not Path(session.project_dir).is_dir():
        message = f"{session.project_dir} is not a directory; restore it, or start a new session elsewhere"
        raise _refused(RefusalReason.NO_FOLDER, "$.project_dir", message)
    if at.is_queued:
        _check_parameters(blueprint.parameters_schema if is_new else None, asked, blueprint)
    record, contract = _answer_asked_for(asked, blueprint, at)
    run = Run(
        run_id=asked.run_id or new_run_id(),
        session_id=session.session_id,
        mode="start" if is_new else "resume",
        parameters=asked.parameters,
        started_at=timestamp(),
        status="queued" if at.is_queued else "running",
        contract=record,
        batch_id=asked.batch_id or at.batch_id,
        succeeds=asked.succeeds,
        **{name: getattr(asked, name) for name in TERMS if name != "profile"},
        profile=asked.profile or session.profile or session.executor_path,
    )
    _check_size(session, run)
    is_asked_again = contract is not None and blueprint.type == "autonomous"
    attempts = contract.max_retries + 1 if contract is not None and is_asked_again else None
    return AcceptedRun(session, run, is_new, attempts)


def _check_fields(asked: NewRun) -> None:
    for name in ("parameters", "metadata", "labels", "executor_config", "output_schema", "output_schema_options"):
        value, place = getattr(asked, name), f"$.{name}"
        check_interoperable(value, place=place)
        if not isinstance(value, dict | None):
            raise _refused(RefusalReason.FIELD, place, f"expected an object, found a {type(value).__name__}")
    for name in ("run_id", "session_id"):
        if asked.blueprint is not None and (wanted := getattr(asked, name)) is not None:
            check_name(wanted, place=f"$.{name}: ")
            if not is_identifier(wanted):
                raise _refused(
                    RefusalReason.FIELD, f"$.{name}", f"expected at most {MAX_IDENTIFIER_BYTES} bytes as JSON"
                )
    seconds = asked.timeout_seconds
    if seconds is not None and not (isinstance(seconds, float | int) and 0 < seconds < math.inf):
        message = f"expected a valid number of seconds greater than 0, found {seconds!r}"
        raise _refused(RefusalReason.FIELD, "$.timeout_seconds", message)
    for number, tag in enumerate(asked.requires):
        try:
            check_tag(tag)
        except ValueError as error:
            raise _refused(RefusalReason.FIELD, f"$.requires[{number}]", str(error)) from error
    _check_labels(asked.labels)


LABEL: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]{0,62}")
MAX_LABELS: Final = 20
MAX_LABEL_CHARACTERS: Final = 200


def _check_labels(labels: Mapping[str, str]) -> None:
    if len(labels) > MAX_LABELS:
        raise _refused(RefusalReason.FIELD, "$.labels", f"found {len(labels)}, expected at most {MAX_LABELS}")
    for name, text in labels.items():
        if not LABEL.fullmatch(name) or not (isinstance(text, str) and 0 < len(text) <= MAX_LABEL_CHARACTERS):
            most = f"at most 63, and a text of 1 to {MAX_LABEL_CHARACTERS} characters"
            message = f"expected a name of letters, digits and . _ / -, {most}"
            raise _refused(RefusalReason.FIELD, below("$.labels", name), message)


def _check_parent(asked: NewRun, at: Reception) -> None:
    parent = asked.parent_session_id
    if parent is None or at.store is None:
        return
    if parent == asked.session_id:
        raise RunRefused(RefusalReason.OWN_PARENT, "a session cannot be its own parent")
    if not at.store.sessions.exists(parent):
        raise RunRefused(RefusalReason.PARENT_NOT_FOUND, f"Parent session {shown(parent)} not found")


def _new_session(asked: NewRun, loaded: LoadedBlueprint, at: Reception) -> Session:
    """Return the session that a run begins, or that of another coordinator which this place does not store."""
    wanted = asked.session_id
    if wanted is not None and at.store is not None and at.store.sessions.exists(wanted):
        raise RunRefused(RefusalReason.SESSION_EXISTS, f"Session {shown(wanted)} already exists")
    profile = asked.profile
    if profile is None and asked.executor is None:
        profile = DEFAULT_EXECUTORS[loaded.blueprint.type]
    executor = asked.executor if profile is None or asked.executor is not None else _executor_of(profile, at)
    assert executor is not None, "a profile or an executor is known"  # noqa: S101
    return Session(
        session_id=wanted or new_session_id(),
        created_at=timestamp(),
        executor_name=executor.name,
        executor_path=str(executor.path),
        project_dir=asked.project_dir or at.project_dir,
        blueprint=loaded.document,
        executor_config=_with_commands_folder(asked.executor_config, loaded),
        executor_session_id=asked.executor_session_id,
        profile=profile,
        is_simulated=asked.has_script,
        parent_session_id=asked.parent_session_id,
    )


def _executor_of(profile: str, at: Reception) -> Executor:
    """Return the executor of a profile; a profile that this host does not have belongs to workers elsewhere."""
    if profile not in at.executors:
        try:
            at.executors[profile] = locate_executor(load_profile(profile, at.home, at.environ).executor)
        except (ProfileNotFound, InvalidProfile, ExecutorNotFound):
            at.executors[profile] = Executor(profile, Path(profile))
    return at.executors[profile]


def _with_commands_folder(config: JsonObject, loaded: LoadedBlueprint) -> JsonObject:
    """Return the configuration; by default, the commands of a procedural agent are in the folder of its blueprint."""
    if loaded.blueprint.type != "procedural" or "commands_dir" in config:
        return config
    return {**config, "commands_dir": str(loaded.path.resolve().parent)}


def _session_to_continue(asked: NewRun, at: Reception) -> Session:
    if asked.session_id is None or at.store is None:
        raise RunRefused(RefusalReason.NO_STORE, "session_id is required to continue a session")
    session = at.store.sessions.find(asked.session_id)
    if session.blueprint.get("type") == "procedural":
        message = "Procedural agents are stateless and cannot be resumed"
        raise RunRefused(RefusalReason.STATELESS, message, facts={"agent_name": session.agent_name})
    is_open = any(run.status in OPEN_STATUSES for run in at.store.runs.of_sessions(session.session_id))
    if session.executor_session_id is None and not is_open:
        reason = (
            f"cannot be resumed: its executor, {session.executor_name}, never announced a session id. "
            "Start a new session with `ao run` or `ao submit`"
        )
    elif session.is_simulated and not asked.has_script:
        reason = (
            "was created with a model script, so a real model does not know it. "
            "Add --model-script FILE, or start a new one with `ao run`"
        )
    elif asked.has_script and not session.is_simulated:
        reason = "was created with a real model, so a script cannot continue it. Omit --model-script"
    else:
        return session
    raise RunRefused(RefusalReason.CANNOT_RESUME, f"session {session.session_id} {reason}")


def blueprint_of(session: Session) -> Blueprint:
    """Return the blueprint of a stored session, with stand-ins for its placeholders.

    Raises:
        RowDamaged: The stored blueprint is not valid.
    """
    try:
        return Blueprint.model_validate(with_stand_ins(session.blueprint))
    except ValidationError as error:
        problems = "; ".join(str(problem) for problem in problems_of(error, session.blueprint))
        raise RowDamaged("session", session.session_id, f"column blueprint holds no blueprint: {problems}") from error


def _check_parameters(schema: JsonObject | None, asked: NewRun, blueprint: Blueprint) -> None:
    if schema is None and blueprint.type == "procedural":
        return
    try:
        with suppress(InvalidSchema):  # the run fails with the reason
            check_against(schema, asked.parameters)
    except ParametersInvalid as error:
        facts: JsonObject = {"parameters_schema": PROMPT_SCHEMA if schema is None else schema}
        raise RunRefused(RefusalReason.PARAMETERS, str(error), error.problems, facts) from error


NO_CONTRACT: Final[JsonObject] = {"source": "none"}
"""The record of a run whose caller wants free text, even if the blueprint has a default schema."""


def _answer_asked_for(
    asked: NewRun, blueprint: Blueprint, at: Reception
) -> tuple[JsonObject | None, OutputContract | None]:
    """Return the contract of the run, as it is stored and sent, and as it holds; None if there is none.

    The record has `source`, `schema`, `schema_name`, `options` and `keep_rejected`, as far as they are set. Problems of
    the blueprint's own schema are reported by the run.
    """
    schema, source, options = _schema_asked_for(asked, at)
    demand = demand_of(blueprint, schema, source, options)
    contract: OutputContract | None = None
    if asked.no_schema:
        record: JsonObject | None = _no_contract(asked, demand)
    else:
        if options and not demand.has_schema and demand.authoritative is None:
            message = "needs an output schema, and there is none"
            raise _refused(RefusalReason.CONTRACT, "$.output_schema_options", message)
        try:
            with suppress(InvalidSchema):
                contract = resolve_contract(demand, at.environ)
            record = _record_of(demand, asked.output_schema_name, at.environ)
        except ContractOverridden as error:
            raise RunRefused(RefusalReason.CONTRACT, str(error), [error.problem]) from error
        except InvalidOptions as error:
            raise RunRefused(RefusalReason.OPTIONS, str(error), error.problems) from error
    return (record if asked.keep_rejected else {**(record or {}), "keep_rejected": False}), contract


def _schema_asked_for(asked: NewRun, at: Reception) -> tuple[JsonObject | None, SchemaSource, JsonObject]:
    name, schema = asked.output_schema_name, asked.output_schema
    if name is not None and schema is not None:
        raise _refused(
            RefusalReason.TWO_SCHEMAS, "$.output_schema_name", "contradicts output_schema; expected one of them"
        )
    if name is not None:
        from ao_runner.named_schemas.registry import SchemaRegistry

        if at.store is None:
            message = "needs a store of schemas, and there is none; use output_schema"
            raise _refused(RefusalReason.NO_STORE, "$.output_schema_name", message)
        return SchemaRegistry(at.store).get(name).schema, SchemaSource.NAMED, asked.output_schema_options
    if schema is not None:
        from ao_runner.named_schemas.vetting import vet

        vet("output_schema", schema)
    return schema, SchemaSource.INLINE, asked.output_schema_options


def _no_contract(asked: NewRun, demand: Demand) -> JsonObject:
    if demand.schema is not None or asked.output_schema_options:
        message = "asks for free text; omit it, or omit the other options of the output"
    elif demand.authoritative is not None:
        message = "the agent's designer demands a schema of every answer, which always holds"
    else:
        return NO_CONTRACT
    raise _refused(RefusalReason.CONTRACT, "$.no_schema", message)


def _record_of(demand: Demand, schema_name: str | None, environ: Mapping[str, str]) -> JsonObject | None:
    """Return the record of a demand; None if only the designer has one and the caller sets no options."""
    options = dict(demand.options or {})
    if demand.authoritative is not None:
        return {"source": str(SchemaSource.BLUEPRINT), "options": options} if options else None
    if demand.schema is not None:
        record: JsonObject = {"source": str(demand.source), "schema": dict(demand.schema)}
        record |= {} if schema_name is None else {"schema_name": schema_name}
    elif demand.default is not None:
        record = {"source": str(SchemaSource.DEFAULT), "schema": dict(demand.default)}
        options = {**(demand.default_options or {}), **options}
    else:
        return None
    return {**record, "options": options_to_send(options, default_options(environ))}


def _check_size(session: Session, run: Run) -> None:
    """Refuse a run if its invocation would be too large (AOX-237): parameters of a model are in it twice."""
    parts: list[object] = [session.blueprint, session.executor_config, run.parameters, run.contract, run.metadata]
    parts += [*run.attachments, *([] if session.blueprint.get("type") == "procedural" else [run.parameters])]
    size = len(json.dumps(parts, ensure_ascii=False).encode())
    if size > MAX_INVOCATION_BYTES:
        most = f"{MAX_INVOCATION_BYTES} are the most; put large texts into files, and attach large files by their path"
        raise RunRefused(RefusalReason.TOO_LARGE, f"the invocation of the run would have {size} bytes, and {most}")


def shown(name: str) -> str:
    """Return a name of a client in quotation marks, shortened."""
    return repr(name[:MAX_SHOWN_CHARACTERS])
