"""Check a run before its process starts, so that no executor has to (SPEC 11.1, AOX-238, AOX-239).

The first checks need no executor: blueprint, project directory, parameters, contract. Then the run is checked against
the description. The messages are those of `ao_protocol.refusals`, which standard executors also use. The module also
records the demands of designer and caller on the answer, and decides who enforces the contract (SPEC 11.4).
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from ao_protocol.contracts import (
    AgentResponseFormat,
    Demands,
    OptionDefaults,
    OutputContract,
    SchemaSource,
    Strategy,
    demands_of_blueprint,
    options_to_send,
)
from ao_protocol.documents import (
    Blueprint,
    Description,
    Invocation,
    InvocationRefused,
    OutputSchemaCapability,
    invocation_from_document,
)
from ao_protocol.errors import ErrorType
from ao_protocol.framing import MAX_INVOCATION_BYTES, encode_line
from ao_protocol.refusals import (
    ConfigSchemaNotAcceptable,
    contract_or_refusal,
    refuse_config,
    refuse_parameters,
    refuse_what_is_not_served,
    with_offered_strategy,
)
from ao_protocol.version import CURRENT, SchemaVersion
from ao_protocol.wire import JsonObject, problems_of
from ao_protocol.written import unsendable
from ao_runner.blueprints.placeholders import (
    Scopes,
    UnresolvedPlaceholders,
    fill_runner_values,
    resolve_placeholders,
)
from ao_runner.profiles import profile_environment
from ao_runner.runs.run_request import RunRequest, invocation_of, refused
from ao_runner.store.records import Run


def with_placeholders_filled_in(request: RunRequest) -> RunRequest:
    """Return the request with a blueprint without placeholders.

    Raises:
        CannotStart: A placeholder cannot be filled in, or the blueprint is invalid.
    """
    session = request.session
    try:
        if request.is_resolved:
            filled = fill_runner_values(session.blueprint, request.runner_values)
            blueprint: JsonObject = filled if isinstance(filled, dict) else {}
        else:
            blueprint = resolve_placeholders(session.blueprint, _scopes(request))
        Blueprint.model_validate(blueprint)
    except UnresolvedPlaceholders as error:
        raise refused(ErrorType.INVALID_INVOCATION, str(error)) from error
    except ValidationError as error:
        problems = [str(problem) for problem in problems_of(error, session.blueprint)]
        sentence = f"the blueprint is not valid: {'; '.join(problems)}"
        raise refused(ErrorType.INVALID_INVOCATION, sentence, details={"problems": problems}) from error
    return replace(request, session=replace(session, blueprint=blueprint))


def _scopes(request: RunRequest) -> Scopes:
    session, profile = request.session, request.profile
    if profile is None:
        shown: Mapping[str, str] = {}
    elif request.simulation is not None:
        shown = profile.environment.set
    else:
        shown = profile_environment(profile, request.environ)
    return Scopes(
        runner=request.runner_values,
        params=request.run.parameters if request.first_parameters is None else request.first_parameters,
        env=shown,
        runtime={"session_id": session.session_id, "run_id": request.run.run_id, "project_dir": session.project_dir},
        secrets=frozenset() if profile is None else frozenset(profile.secrets),
    )


@dataclass(frozen=True, slots=True)
class Acceptable:
    """A run that passed all checks without an executor: its invocation, as the executor will read it, and contract."""

    invocation: Invocation
    contract: OutputContract | None


def check_run(request: RunRequest, *, is_turn: bool) -> Acceptable:
    """Check everything about a run that needs no executor.

    Args:
        request: The run, without placeholders.
        is_turn: Whether a process waits for the session's next run, which then needs no id of the model's session.

    Raises:
        CannotStart: A part of the run is not acceptable, or the project directory does not exist.
    """
    with _refusals_end_the_run():
        invocation = _readable(request, is_turn=is_turn)
        refuse_parameters(invocation)
        blueprint = Blueprint.model_validate(request.session.blueprint)
        contract = contract_or_refusal(demands_of_run(blueprint, request.run), request.option_defaults)
    folder = request.session.project_dir
    if not Path(folder).is_dir():
        sentence = f"project_dir {folder!r} is not a directory; create it or name another"
        raise refused(ErrorType.WORKSPACE_ERROR, sentence, origin="environment")
    return Acceptable(invocation, contract)


def version_for(description: Description) -> str:
    """Return the version to send: the runner's own if the executor lists it, else the nearest listed one.

    Raises:
        CannotStart: The executor lists no version with the runner's major.
    """
    listed = [SchemaVersion.parse(text) for text in description.schema_versions]
    spoken = [version for version in listed if version.major == CURRENT.major]
    if not spoken:
        versions = description.schema_versions
        message = (
            f"the executor supports schema version {', '.join(versions)}, this runner {CURRENT};"
            " install a matching version"
        )
        details: JsonObject = {"requested": str(CURRENT), "supported": list(versions)}
        raise refused(ErrorType.UNSUPPORTED_SCHEMA_VERSION, message, origin="environment", details=details)
    return str(CURRENT if CURRENT in spoken else min(spoken, key=lambda version: abs(version.minor - CURRENT.minor)))


def contract_as_asked(
    request: RunRequest, *, run: Acceptable, description: Description, is_turn: bool
) -> OutputContract | None:
    """Check a run against the description of its executor and return its contract with the selected strategy.

    Raises:
        CannotStart: The executor does not support the run.
    """
    invocation, contract, is_resume = run.invocation, run.contract, request.run.mode == "resume"
    with _refusals_end_the_run():
        if not is_turn:
            refuse_what_is_not_served(invocation, description)
        try:
            refuse_config(invocation.executor_config, description)
        except ConfigSchemaNotAcceptable as error:
            raise refused(ErrorType.PROTOCOL_VIOLATION, str(error), origin="executor") from error
        if contract is None:
            return None
        capability = description.capabilities.output_schema
        if isinstance(capability, OutputSchemaCapability) and keeps_itself(description, contract):
            return with_offered_strategy(contract, capability.strategies, is_resume=is_resume)
        whose = f"{request.executor.name} keeps no such contract itself, and for the runner "
        own = strategies_for(Blueprint.model_validate(request.session.blueprint))
        return with_offered_strategy(contract, own, is_resume=is_resume, usual=Strategy.PROMPT, whose=whose)


def _readable(request: RunRequest, *, is_turn: bool) -> Invocation:
    document = invocation_of(request)
    if is_turn and not document.get("executor_session_id"):
        document["executor_session_id"] = request.session.session_id
    if problems := unsendable(document):
        sentence = f"the invocation is not valid: {'; '.join(problems)}"
        raise InvocationRefused(ErrorType.INVALID_INVOCATION, sentence, {"problems": list(problems)})
    line = encode_line(document)
    if len(line) > MAX_INVOCATION_BYTES + 1:
        sentence = f"the invocation has {len(line) - 1} bytes, and {MAX_INVOCATION_BYTES} are the most; use files"
        raise InvocationRefused(ErrorType.INVOCATION_TOO_LARGE, sentence, {"limit_bytes": MAX_INVOCATION_BYTES})
    return invocation_from_document(json.loads(line))  # as the executor reads it, with U+FFFD for a lone surrogate


@contextmanager
def _refusals_end_the_run() -> Iterator[None]:
    try:
        yield
    except InvocationRefused as error:
        facts = {"details": error.details or {}, "validation_errors": error.validation_errors}
        raise refused(error.error_type, error.message, **facts) from error


@dataclass(frozen=True, slots=True)
class CallerDemand:
    """The caller's demands on the answer of a run. A schema with a name comes from the registry."""

    schema: JsonObject | None = None
    schema_name: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)


NO_CONTRACT: Final[JsonObject] = {"source": "none"}
"""The record of a run whose caller wants free text, even if the blueprint has a default schema."""


def demands_together(blueprint: Blueprint, caller: CallerDemand) -> Demands:
    """Return the combined demands of designer and caller."""
    is_named = caller.schema_name is not None
    return replace(
        demands_of_blueprint(blueprint),
        inline=None if is_named else caller.schema,
        named=caller.schema if is_named else None,
        options=caller.options,
    )


def demand_record(blueprint: Blueprint, caller: CallerDemand, defaults: OptionDefaults) -> JsonObject | None:
    """Return the record of a run's demands to store and send: `source`, `schema`, `schema_name`, `options`.

    Return None if only the designer has demands and the caller sets no options.
    """
    designers = demands_of_blueprint(blueprint)
    options: Mapping[str, Any] = caller.options
    record: JsonObject = {}
    if designers.authoritative is not None:
        return {"source": str(SchemaSource.BLUEPRINT), "options": dict(options)} if options else None
    if caller.schema is not None:
        record |= {"source": str(SchemaSource.INLINE), "schema": caller.schema}
        if caller.schema_name is not None:
            record |= {"source": str(SchemaSource.NAMED), "schema_name": caller.schema_name}
    elif designers.default is not None:
        record |= {"source": str(SchemaSource.DEFAULT), "schema": dict(designers.default)}
        options = {**(designers.default_options or {}), **options}
    else:
        return None
    return {**record, "options": options_to_send(options, defaults)}


def demands_of_run(blueprint: Blueprint, run: Run) -> Demands:
    """Return all demands on the answer of a run, including the designer's."""
    record: Mapping[str, Any] = run.contract or {}
    is_callers = record.get("source") in {SchemaSource.INLINE, SchemaSource.NAMED}
    schema = record.get("schema") if is_callers else None
    return demands_together(blueprint, CallerDemand(schema, record.get("schema_name"), record.get("options") or {}))


def keeps_itself(description: Description, contract: OutputContract) -> bool:
    """Return whether the executor enforces a contract of this format itself."""
    capability = description.capabilities.output_schema
    if not isinstance(capability, OutputSchemaCapability):
        return False
    return not isinstance(contract.format, AgentResponseFormat) or "agent_response" in capability.formats


def strategies_for(blueprint: Blueprint) -> tuple[Strategy, ...]:
    """Return the strategies for a contract that the runner enforces: it edits prompts and has no provider."""
    if blueprint.type == "procedural":
        return (Strategy.EXTRACT,)
    return (Strategy.PROMPT, Strategy.SYSTEM_PROMPT, Strategy.EXTRACT)
