"""From an invocation document to a task, or to the refusal that says what is wrong with it (SPEC 4, 8, 9).

Everything here happens before a model is started or a file is touched.
"""

import os
from dataclasses import replace
from pathlib import Path

from pydantic import JsonValue

from ao_executors.core.describe_and_check import description_of
from ao_executors.core.emitter import Emitter
from ao_executors.core.executor import Executor
from ao_executors.core.failures import RunFailed, parameters_refused, refused
from ao_executors.core.project_dir import find_project_dir
from ao_executors.core.task import Setting, Task
from ao_executors.core.terms import terms_from
from ao_protocol.blueprint import StdioMcpServer
from ao_protocol.control import Turn
from ao_protocol.describe import Description, OutputSchemaCapability
from ao_protocol.errors import ErrorType
from ao_protocol.events import Log
from ao_protocol.inputs import ParametersInvalid, agent_text, check_parameters
from ao_protocol.invocation import Invocation, InvocationRefused, invocation_from_document
from ao_protocol.output import (
    AgentResponseFormat,
    ContractOverridden,
    InvalidOptions,
    InvalidSchema,
    OutputContract,
    Strategy,
    StrategyNotOffered,
    check_schema,
    defaults_from,
    demands_of,
    enrich,
    resolve_contract,
    takes_defaults,
    validate,
    with_strategy,
)
from ao_protocol.output.options import USUAL_DEFAULTS
from ao_protocol.wire import JsonObject


def prepare(executor: Executor, document: dict[str, JsonValue], events: Emitter) -> Task:
    """Check an invocation and return its task.

    Raises:
        RunFailed: a refusal, exit code 64, or `workspace_error` where the project directory is not there.
    """
    invocation, description = _read(document), description_of(executor)
    events.max_event_bytes = invocation.limits.max_event_bytes or events.max_event_bytes
    _check_capabilities(invocation, description)
    _check_config(invocation.executor_config, description, events)
    _check_parameters(invocation)
    _check_mcp_servers(invocation, executor, events)
    setting = _setting(invocation, description)
    return Task(
        terms=setting.terms,
        system_prompt=setting.system_prompt,
        contract=setting.contract,
        config=setting.config,
        project_dir=setting.project_dir,
        read_invocation=setting.read_invocation,
        text=_text(invocation, setting.contract),
        events=events,
    )


def prepare_setting(executor: Executor, document: dict[str, JsonValue], events: Emitter) -> Setting:
    """Check an invocation without its parameters, for what can be connected before it comes.

    Raises:
        RunFailed: as `prepare`.
    """
    invocation, description = _read({**document, "parameters": {}}), description_of(executor)
    _check_capabilities(invocation, description)
    _check_config(invocation.executor_config, description, events)
    return _setting(invocation, description)


def prepare_turn(first: Task, turn: Turn, events: Emitter) -> Task:
    """Return the task of a turn in the session of `first`; all but the question is as it was there (SPEC 4.4).

    A session that no run has bound has not begun, or is the one that the invocation resumes: then the turn begins as
    the first run did.

    Raises:
        RunFailed: its parameters are refused.
    """
    changed = {
        "mode": "resume",
        "run_id": turn.run_id,
        "parameters": turn.parameters,
        "executor_session_id": events.bound_session,
    }
    invocation = first.invocation.model_copy(update=changed)
    _check_parameters(invocation)
    text = _text(invocation, first.contract)
    if events.bound_session is None:
        as_first = {"mode": first.invocation.mode, "executor_session_id": first.invocation.executor_session_id}
        invocation = invocation.model_copy(update=as_first)
    return replace(first, read_invocation=lambda: invocation, text=text, events=events)


def _read(document: dict[str, JsonValue]) -> Invocation:
    try:
        return invocation_from_document(document)
    except InvocationRefused as error:
        raise refused(error.error_type, error.message, error.details) from error


def _setting(invocation: Invocation, description: Description) -> Setting:
    contract = _contract_of(invocation, description)
    terms = terms_from(invocation.schema_version, invocation.limits.model_dump(), invocation.control.model_dump())
    return Setting(
        terms=replace(terms, has_mcp_programs=_has_mcp_programs(invocation)),
        system_prompt=_system_prompt(invocation, contract),
        contract=contract,
        config=invocation.executor_config,
        project_dir=_project_dir(invocation),
        read_invocation=lambda: invocation,
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


def _check_mcp_servers(invocation: Invocation, executor: Executor, events: Emitter) -> None:
    blueprint = invocation.agent_blueprint
    if blueprint is None or not blueprint.mcp_servers or executor.starts_mcp_servers:
        return
    required = [name for name, server in blueprint.mcp_servers.items() if server.required]
    if not required:
        names = ", ".join(blueprint.mcp_servers)
        events.emit(Log(level="warning", message=f"{executor.name} starts no MCP servers; continuing without {names}"))
        return
    raise RunFailed(
        ErrorType.MCP_SERVER_UNAVAILABLE,
        f"{executor.name} starts no MCP servers, and the blueprint requires {', '.join(required)}; "
        "remove them, or use another executor",
        origin="caller",
        retryable=False,
    )


def _has_mcp_programs(invocation: Invocation) -> bool:
    blueprint = invocation.agent_blueprint
    servers = (blueprint.mcp_servers or {}) if blueprint is not None else {}
    return any(isinstance(server, StdioMcpServer) for server in servers.values())


def _check_config(config: JsonObject, description: Description, events: Emitter) -> None:
    config_schema = description.config_schema
    try:
        problems = validate(config, config_schema)
    except InvalidSchema as error:
        message = (
            f"the config_schema of {description.executor.name} is not acceptable: {error}; "
            "its author has to write it in JSON Schema Draft-7"
        )
        raise RunFailed(ErrorType.INTERNAL_ERROR, message, origin="executor") from error
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
        problem = f"$.agent_blueprint.parameters_schema: {error}"
        raise refused(ErrorType.INVALID_INVOCATION, problem, {"problems": [problem]}) from error
    except ParametersInvalid as error:
        raise parameters_refused(str(error), error.problems, error.schema) from error


def _contract_of(invocation: Invocation, description: Description) -> OutputContract | None:
    """Return the contract that this executor keeps; one that declares no `output_schema` leaves it to the runner."""
    capability = description.capabilities.output_schema
    if not isinstance(capability, OutputSchemaCapability):
        return None
    try:
        demands = demands_of(invocation)
        defaults = defaults_from(os.environ) if takes_defaults(demands) else USUAL_DEFAULTS
        contract = resolve_contract(demands, defaults)
        if contract is None:
            return None
        _check_format(contract, capability)
        return with_strategy(contract, capability.strategies, is_resume=invocation.mode == "resume")
    except ContractOverridden as error:
        raise refused(ErrorType.INVALID_INVOCATION, str(error), {"problems": [str(error.problem)]}) from error
    except InvalidOptions as error:
        details = {"problems": [str(problem) for problem in error.problems]}
        message = f"the output options are not acceptable: {error}"
        raise refused(ErrorType.INVALID_INVOCATION, message, details) from error
    except InvalidSchema as error:
        raise refused(ErrorType.INVALID_OUTPUT_SCHEMA, f"the output schema is not acceptable: {error}") from error
    except StrategyNotOffered as error:
        missing = {"missing": [f"output_schema.strategies:{error.wanted}"]}
        raise refused(ErrorType.UNSUPPORTED_CAPABILITY, str(error), missing) from error


def _check_format(contract: OutputContract, capability: OutputSchemaCapability) -> None:
    if isinstance(contract.format, AgentResponseFormat) and "agent_response" not in capability.formats:
        raise refused(
            ErrorType.UNSUPPORTED_CAPABILITY,
            "the agent's output_format is agent_response, which this executor does not support; run it with `ao run`, "
            "which keeps the contract itself",
            {"missing": ["output_schema.formats:agent_response"]},
        )


def _system_prompt(invocation: Invocation, contract: OutputContract | None) -> str | None:
    """Return the system prompt, with the contract's demand where its strategy puts it there."""
    blueprint = invocation.agent_blueprint
    system_prompt = blueprint.system_prompt if blueprint is not None else None
    if contract is not None and contract.strategy is Strategy.SYSTEM_PROMPT:
        return enrich(system_prompt, contract.format)
    return system_prompt


def _text(invocation: Invocation, contract: OutputContract | None) -> str:
    """Return the user's text, with the contract's demand where its strategy puts it there."""
    text = agent_text(invocation)
    return enrich(text, contract.format) if contract is not None and contract.strategy is Strategy.PROMPT else text


def _project_dir(invocation: Invocation) -> Path:
    path = find_project_dir(invocation.project_dir)
    if path is None:
        message = f"project_dir {invocation.project_dir!r} is not a directory; create it or name another"
        raise RunFailed(ErrorType.WORKSPACE_ERROR, message, origin="environment")
    return path
