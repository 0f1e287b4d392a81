"""From an invocation document to a task, or to the refusal that says what is wrong with it (SPEC 4, 8, 9).

Everything here happens before a model is started or a file is touched.
"""

from pathlib import Path

from pydantic import JsonValue

from ao_executors.core.emitter import Emitter
from ao_executors.core.executor import Executor
from ao_executors.core.failures import RunFailed, refused
from ao_executors.core.task import Task
from ao_executors.core.verbs import description_of
from ao_protocol.describe import Description
from ao_protocol.errors import ErrorType
from ao_protocol.events import Log
from ao_protocol.inputs import ParametersInvalid, agent_text, check_parameters
from ao_protocol.invocation import Invocation, InvocationRefused, invocation_from_document
from ao_protocol.output.contract import InvalidOptions, OutputContract, resolve_contract
from ao_protocol.output.enrichment import enrich_system_prompt
from ao_protocol.output.schema_vetting import InvalidSchema, check_schema
from ao_protocol.output.validation import validate
from ao_protocol.wire import JsonObject


def prepare(executor: Executor, document: dict[str, JsonValue], events: Emitter) -> Task:
    """Check an invocation and return its task.

    Raises:
        RunFailed: a refusal, exit code 64, or `workspace_error` where the project directory is not there.
    """
    try:
        invocation = invocation_from_document(document)
    except InvocationRefused as error:
        raise refused(error.error_type, error.message, error.details) from error
    events.max_event_bytes = invocation.limits.max_event_bytes or events.max_event_bytes
    description = description_of(executor)
    _check_capabilities(invocation, description)
    _check_config(invocation.executor_config, description.config_schema, events)
    _check_parameters(invocation)
    contract = _contract_of(invocation, description)
    return Task(
        invocation=invocation,
        text=agent_text(invocation),
        system_prompt=_system_prompt(invocation, contract),
        contract=contract,
        config=invocation.executor_config,
        project_dir=_project_dir(invocation),
        events=events,
    )


def _check_capabilities(invocation: Invocation, description: Description) -> None:
    blueprint = invocation.agent_blueprint
    if blueprint is not None and blueprint.type not in description.agent_types:
        served = ", ".join(description.agent_types)
        raise refused(
            ErrorType.UNSUPPORTED_CAPABILITY,
            f"the agent is of type {blueprint.type}; {description.executor.name} serves agents of type {served}",
            {"missing": [f"agent_type:{blueprint.type}"]},
        )
    if invocation.mode == "resume" and not description.capabilities.resume:
        raise refused(
            ErrorType.UNSUPPORTED_CAPABILITY,
            f"{description.executor.name} cannot resume a session; start a new one",
            {"missing": ["resume"]},
        )


def _check_config(config: JsonObject, config_schema: JsonObject, events: Emitter) -> None:
    problems = validate(config, config_schema)
    if problems:
        raise refused(
            ErrorType.INVALID_EXECUTOR_CONFIG,
            f"executor_config does not fit: {'; '.join(map(str, problems))}",
            {"violations": [{"pointer": p.path, "message": p.message} for p in problems], "schema": config_schema},
        )
    known = config_schema.get("properties")
    for name in config.keys() - (known.keys() if isinstance(known, dict) else config.keys()):
        known_names = ", ".join(known) if isinstance(known, dict) else ""
        events.emit(Log(level="warning", message=f"executor_config.{name} is ignored; known are {known_names}"))


def _check_parameters(invocation: Invocation) -> None:
    blueprint = invocation.agent_blueprint
    try:
        if blueprint is not None and blueprint.parameters_schema is not None:
            check_schema(blueprint.parameters_schema)
        check_parameters(invocation)
    except InvalidSchema as error:
        raise refused(ErrorType.INVALID_INVOCATION, f"agent_blueprint.parameters_schema: {error}") from error
    except ParametersInvalid as error:
        details = {"validation_errors": [str(problem) for problem in error.problems], "schema": error.schema}
        failure = refused(ErrorType.PARAMETERS_VALIDATION_FAILED, str(error), details)
        failure.extra["validation_errors"] = details["validation_errors"]
        raise failure from error


def _contract_of(invocation: Invocation, description: Description) -> OutputContract | None:
    """Return the contract that this executor keeps; one that declares no `output_schema` leaves it to the runner."""
    if not description.capabilities.output_schema:
        return None
    blueprint = invocation.agent_blueprint
    authoritative = blueprint.output_schema if blueprint is not None else None
    try:
        return resolve_contract(authoritative, invocation.output_schema, invocation.output_schema_options)
    except InvalidOptions as error:
        raise refused(ErrorType.INVALID_INVOCATION, f"the output options are not acceptable: {error}") from error
    except InvalidSchema as error:
        raise refused(ErrorType.INVALID_OUTPUT_SCHEMA, f"the output schema is not acceptable: {error}") from error


def _system_prompt(invocation: Invocation, contract: OutputContract | None) -> str | None:
    blueprint = invocation.agent_blueprint
    written = blueprint.system_prompt if blueprint is not None else None
    return enrich_system_prompt(written, contract.schema) if contract is not None else written


def _project_dir(invocation: Invocation) -> Path:
    path = Path(invocation.project_dir or Path.cwd())
    if not path.is_dir():
        message = f"project_dir {str(path)!r} is not a directory; create it or name another"
        raise RunFailed(ErrorType.WORKSPACE_ERROR, message, origin="environment")
    return path
