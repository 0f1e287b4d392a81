"""Check a run before its process starts, so that no executor has to (SPEC 11.1, AOX-238, AOX-239).

The first checks need no executor: blueprint, project directory, parameters, contract. Then the run is checked against
the description. The messages are those of `ao_protocol.refusals`, which standard executors also use. The module also
decides who enforces the contract (SPEC 11.4).
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from pydantic import ValidationError

from ao_protocol.contracts import AgentResponseFormat, OutputContract, SchemaSource, Strategy
from ao_protocol.contracts.contract import Demand, demand_of
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
from ao_protocol.redaction import Redactor
from ao_protocol.refusals import (
    ConfigSchemaNotAcceptable,
    contract_or_refusal,
    refuse_attachments,
    refuse_config,
    refuse_parameters,
    refuse_undeclared_settings,
    refuse_unreadable_attachments,
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
    has_placeholders,
    resolve_placeholders,
)
from ao_runner.profiles import InputWait, profile_environment, waiting_problem
from ao_runner.runs.run_request import ReadyRun, RunRequest, control_of, invocation_of, refused
from ao_runner.store.records import Run, Session


def demand_on(run: Run, blueprint: Blueprint) -> Demand:
    """Return the whole demand on the answer of a stored run: the recorded one, and that of its agent's designer."""
    record = run.contract or {}
    schema, options = record.get("schema"), record.get("options")
    is_callers = isinstance(schema, dict) and record.get("source") in {SchemaSource.INLINE, SchemaSource.NAMED}
    source = SchemaSource.NAMED if record.get("source") == SchemaSource.NAMED else SchemaSource.INLINE
    return demand_of(
        blueprint,
        schema if is_callers and isinstance(schema, dict) else None,
        source,
        options if isinstance(options, dict) else None,
    )


class CheckedRun(NamedTuple):
    """A run that passed all checks without an executor.

    `document` is its invocation, `invocation` the same as the executor will read it.
    """

    request: RunRequest
    session: Session
    document: JsonObject
    invocation: Invocation
    blueprint: Blueprint
    contract: OutputContract | None


def check_run(request: RunRequest, project_dir: str, *, is_turn: bool) -> CheckedRun:
    """Check everything about a run that needs no executor.

    Args:
        request: The run.
        project_dir: The folder that the agent works in: that of its session, or of its workspace.
        is_turn: Whether a process waits for the session's next run, which then needs no id of the model's session.

    Raises:
        CannotStart: A part of the run is not acceptable, or the project directory does not exist.
    """
    document, blueprint = _blueprint_filled_in(request, project_dir)
    session = replace(request.session, blueprint=document, project_dir=project_dir)
    with _refusals_end_the_run():
        sent = invocation_of(request, session, str(CURRENT), has_inputs=request.inputs is not None)
        invocation = _readable(sent, session, is_turn=is_turn)
        refuse_parameters(invocation)
        refuse_unreadable_attachments(invocation.attachments or [])
        # Defaults of the environment are in the run's record, if it has one: it was accepted elsewhere, perhaps.
        contract = contract_or_refusal(demand_on(request.run, blueprint), {})
    if not Path(project_dir).is_dir():
        sentence = f"project_dir {project_dir!r} is not a directory; create it or name another"
        raise refused(ErrorType.WORKSPACE_ERROR, sentence, origin="environment")
    return CheckedRun(request, session, sent, invocation, blueprint, contract)


def _blueprint_filled_in(request: RunRequest, project_dir: str) -> tuple[JsonObject, Blueprint]:
    """Return the blueprint without placeholders, as a document and parsed.

    Raises:
        CannotStart: A placeholder cannot be filled in, or the blueprint is invalid.
    """
    session = request.session
    try:
        if request.is_resolved:
            filled = fill_runner_values(session.blueprint, request.runner_values)
            document: JsonObject = filled if isinstance(filled, dict) else {}
        elif has_placeholders(session.blueprint):
            document = resolve_placeholders(session.blueprint, _scopes(request, project_dir))
        else:
            document = session.blueprint
        return document, Blueprint.model_validate(document)
    except UnresolvedPlaceholders as error:
        raise refused(ErrorType.INVALID_INVOCATION, str(error)) from error
    except ValidationError as error:
        problems = [str(problem) for problem in problems_of(error, session.blueprint)]
        sentence = f"the blueprint is not valid: {'; '.join(problems)}"
        raise refused(ErrorType.INVALID_INVOCATION, sentence, details={"problems": problems}) from error


def _scopes(request: RunRequest, project_dir: str) -> Scopes:
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
        runtime={"session_id": session.session_id, "run_id": request.run.run_id, "project_dir": project_dir},
        secrets=frozenset() if profile is None else frozenset(profile.secrets),
    )


def _readable(document: JsonObject, session: Session, *, is_turn: bool) -> Invocation:
    if is_turn and not document.get("executor_session_id"):
        document = {**document, "executor_session_id": session.session_id}
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


def ready_run(
    checked: CheckedRun,
    description: Description,
    environment: Mapping[str, str],
    redactor: Redactor,
    *,
    is_turn: bool,
) -> ReadyRun:
    """Check a run against the description of its executor, and return it with its invocation and contract.

    Raises:
        CannotStart: The executor does not support the run, or not what its profile expects.
    """
    request = checked.request
    wait = None if request.profile is None else request.profile.input
    if isinstance(wait, InputWait) and (problem := waiting_problem(wait, description)):
        raise refused(
            ErrorType.UNSUPPORTED_CAPABILITY, f"the profile's input: {problem}", details={"missing": ["input"]}
        )
    inputs = request.inputs if description.capabilities.input else None
    invocation = {
        **checked.document,
        "schema_version": _version_for(description),
        "control": control_of(request, has_inputs=inputs is not None),
    }
    with _refusals_end_the_run():
        if is_turn:
            refuse_attachments(checked.invocation.attachments or [], description)
        else:
            refuse_what_is_not_served(checked.invocation, description)
        refuse_undeclared_settings(checked.invocation.executor_config, description)
        try:
            refuse_config(checked.invocation.executor_config, description)
        except ConfigSchemaNotAcceptable as error:
            raise refused(ErrorType.PROTOCOL_VIOLATION, str(error), origin="executor") from error
        contract = None if checked.contract is None else _with_strategy(checked, checked.contract, description)
    return ReadyRun(request, checked.session, description, environment, redactor, invocation, inputs, contract)


def _version_for(description: Description) -> str:
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


def _with_strategy(checked: CheckedRun, contract: OutputContract, description: Description) -> OutputContract:
    is_resume, capability = checked.request.run.mode == "resume", description.capabilities.output_schema
    if isinstance(capability, OutputSchemaCapability) and keeps_itself(description, contract):
        return with_offered_strategy(contract, capability.strategies, is_resume=is_resume)
    # The runner edits prompts and has no provider.
    in_words = (Strategy.PROMPT, Strategy.SYSTEM_PROMPT, Strategy.EXTRACT)
    own = (Strategy.EXTRACT,) if checked.blueprint.type == "procedural" else in_words
    whose = f"{checked.request.executor.name} keeps no such contract itself, and for the runner "
    return with_offered_strategy(contract, own, is_resume=is_resume, usual=Strategy.PROMPT, whose=whose)


def keeps_itself(description: Description, contract: OutputContract) -> bool:
    """Return whether the executor enforces a contract of this format itself."""
    capability = description.capabilities.output_schema
    if not isinstance(capability, OutputSchemaCapability):
        return False
    return not isinstance(contract.format, AgentResponseFormat) or "agent_response" in capability.formats
