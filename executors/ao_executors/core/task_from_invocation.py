"""Turn an invocation document into a task, or into the refusal that names its faults (SPEC 4, 8, 9).

Internal. Everything here happens before a model is started or a file is touched.
"""

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import JsonValue

from ao_executors.core.emitter import Emitter
from ao_executors.core.executor import Executor, RunFailed, RunLimits, Task, as_failure, refuse_unkept_limits
from ao_executors.core.inputs import Inputs
from ao_protocol.contracts import (
    JsonFormat,
    OutputContract,
    Strategy,
    demand_in,
    enrich,
    native_schema,
)
from ao_protocol.documents import (
    Description,
    Invocation,
    InvocationRefused,
    OutputSchemaCapability,
    RemoteMcpServer,
    StdioMcpServer,
    invocation_from_document,
)
from ao_protocol.errors import ErrorType
from ao_protocol.inputs import agent_text
from ao_protocol.refusals import (
    contract_or_refusal,
    refuse_attachments,
    refuse_config,
    refuse_format,
    refuse_parameters,
    refuse_unreadable_attachments,
    refuse_what_is_not_served,
    with_offered_strategy,
)
from ao_protocol.wire import JsonObject

if TYPE_CHECKING:
    from ao_protocol.control_lines import Turn

_refused_as_native: set[str] = set()
"""The schemas that a provider has refused in this process, as JSON."""


def prepare(
    executor: Executor, document: dict[str, JsonValue], events: Emitter, *, has_parameters: bool = True
) -> Task:
    """Check an invocation and return its task. A prepared invocation has no parameters, and its task no text.

    Raises:
        RunFailed: The invocation is refused (exit code 64), or the project directory is missing (`workspace_error`).
    """
    given = document if has_parameters else {**document, "parameters": {}}
    try:
        invocation, description = invocation_from_document(given), executor.describe()
        events.max_event_bytes = invocation.limits.max_event_bytes or events.max_event_bytes
        refuse_what_is_not_served(invocation, description)
        refuse_unkept_limits(invocation.limits, executor.unkept_limits)
        _check_config(invocation.executor_config, description, events)
        if has_parameters:
            refuse_parameters(invocation)
            refuse_unreadable_attachments(invocation.attachments or [])
        _check_mcp_servers(invocation, executor, events)
        contract = _contract_of(invocation, description, executor)
    except InvocationRefused as error:
        raise as_failure(error) from error
    limits = RunLimits.of(invocation.schema_version, invocation.limits.model_dump(), invocation.control.model_dump())
    blueprint = invocation.agent_blueprint
    system_prompt = blueprint.system_prompt if blueprint is not None else None
    if contract is not None and contract.strategy is Strategy.SYSTEM_PROMPT:
        system_prompt = enrich(system_prompt, contract.format)
    return Task(
        limits=replace(limits, has_mcp_programs=any(isinstance(one, StdioMcpServer) for one in _servers(invocation))),
        system_prompt=system_prompt,
        contract=contract,
        config=invocation.executor_config,
        project_dir=_project_dir(invocation),
        read_invocation=lambda: invocation,
        text=_text(invocation, contract) if has_parameters else "",
        attachments=tuple(invocation.attachments or ()) if has_parameters else (),
        events=events,
        inputs=_inputs(invocation, executor, events),
    )


def prepare_turn(executor: Executor, first: Task, turn: "Turn", events: Emitter) -> Task:
    """Return the task of a turn in the session of `first`. Everything but the prompt is as in `first` (SPEC 4.4).

    If no run has emitted `session_bound`, the session has not begun or is the one that the invocation resumes. The turn
    then begins like the first run.

    Raises:
        RunFailed: The parameters of the turn are refused.
    """
    changed = {
        "mode": "resume",
        "input_responses": None,
        "run_id": turn.run_id,
        "parameters": turn.parameters,
        "prompt": turn.prompt,
        "attachments": turn.attachments,
        "executor_session_id": events.bound_session,
    }
    invocation = first.invocation.model_copy(update=changed)
    given = turn.attachments or []
    try:
        refuse_parameters(invocation)
        refuse_attachments(given, executor.describe())
        refuse_unreadable_attachments(given)
    except InvocationRefused as error:
        raise as_failure(error) from error
    contract = first.contract
    if contract is not None and contract.strategy is Strategy.NATIVE and _key(contract) in _refused_as_native:
        contract = replace(contract, strategy=Strategy.PROMPT)
    text = _text(invocation, contract)
    if events.bound_session is None:
        as_first = {"mode": first.invocation.mode, "executor_session_id": first.invocation.executor_session_id}
        invocation = invocation.model_copy(update=as_first)
    inputs = Inputs(events, is_open=first.inputs.is_open, given={})
    return replace(
        first,
        contract=contract,
        read_invocation=lambda: invocation,
        text=text,
        attachments=tuple(given),
        events=events,
        inputs=inputs,
    )


def without_native(task: Task, executor: Executor) -> Task | None:
    """Return the task with the strategy `prompt`, and remember for this process that the provider refused the schema.

    None if the run asks for `native`, or the executor does not have `prompt`.
    """
    contract, capability = task.contract, executor.describe().capabilities.output_schema
    asked = contract_or_refusal(demand_in(task.invocation), os.environ)
    if contract is None or asked is None or asked.strategy is not Strategy.AUTO:
        return None
    if not isinstance(capability, OutputSchemaCapability) or Strategy.PROMPT not in capability.strategies:
        return None
    _refused_as_native.add(_key(contract))
    contract = replace(contract, strategy=Strategy.PROMPT)
    return replace(task, contract=contract, text=_text(task.invocation, contract))


def _key(contract: OutputContract) -> str:
    return json.dumps(contract.format.schema, sort_keys=True) if isinstance(contract.format, JsonFormat) else ""


def _inputs(invocation: Invocation, executor: Executor, events: Emitter) -> Inputs:
    is_open = invocation.control.stdin == "open" and invocation.control.input and executor.declares("input")
    answers = reversed(invocation.input_responses or [])
    return Inputs(events, is_open=is_open, given={answer.request_id: answer.model_dump() for answer in answers})


def _project_dir(invocation: Invocation) -> Path:
    folder = Path(invocation.project_dir or Path.cwd())
    if not os.path.isdir(folder):  # noqa: PTH112  # `Path.is_dir` raises if the name is too long (AOX-045)
        message = f"project_dir {invocation.project_dir!r} is not a directory; create it or name another"
        raise RunFailed(ErrorType.WORKSPACE_ERROR, message, origin="environment")
    return folder


def _servers(invocation: Invocation) -> list[StdioMcpServer | RemoteMcpServer]:
    blueprint = invocation.agent_blueprint
    return [*(blueprint.mcp_servers or {}).values()] if blueprint is not None else []


def _check_mcp_servers(invocation: Invocation, executor: Executor, events: Emitter) -> None:
    blueprint = invocation.agent_blueprint
    if blueprint is None or not blueprint.mcp_servers or executor.starts_mcp_servers:
        return
    required = [name for name, server in blueprint.mcp_servers.items() if server.required]
    if not required:
        names = ", ".join(blueprint.mcp_servers)
        events.warn(f"{executor.name} starts no MCP servers; continuing without {names}")
        return
    raise RunFailed(
        ErrorType.MCP_SERVER_UNAVAILABLE,
        f"{executor.name} starts no MCP servers, and the blueprint requires {', '.join(required)}; "
        "remove them, or use another executor",
        origin="caller",
        retryable=False,
    )


def _check_config(config: JsonObject, description: Description, events: Emitter) -> None:
    refuse_config(config, description, is_vetted=True)  # a constant, which a conformance suite checks
    known = description.config_schema.get("properties")
    if isinstance(known, dict):
        for name in config.keys() - known.keys():
            events.warn(f"executor_config.{name} is ignored; known are {', '.join(known)}")


def _contract_of(invocation: Invocation, description: Description, executor: Executor) -> OutputContract | None:
    """Return the contract that this executor keeps; None if it declares no `output_schema`: the runner keeps it."""
    capability = description.capabilities.output_schema
    if not isinstance(capability, OutputSchemaCapability):
        return None
    contract = contract_or_refusal(demand_in(invocation), os.environ)
    if contract is None:
        return None
    refuse_format(contract, capability)
    offered = [name for name in capability.strategies if name != "native" or _can_be_native(contract, executor)]
    return with_offered_strategy(contract, offered, is_resume=invocation.mode == "resume")


def _can_be_native(contract: OutputContract, executor: Executor) -> bool:
    """Return whether the provider takes the contract's schema. What no provider takes, `with_strategy` decides."""
    if contract.strategy is Strategy.AUTO and _key(contract) in _refused_as_native:
        return False
    if executor.takes_native is None or contract.strategy not in {Strategy.NATIVE, Strategy.AUTO}:
        return True
    wanted = contract.format
    return not isinstance(wanted, JsonFormat) or executor.takes_native(native_schema(wanted.schema).document)


def _text(invocation: Invocation, contract: OutputContract | None) -> str:
    """Return the text for the agent, with the contract's demand if the strategy is `prompt`."""
    text = invocation.prompt or agent_text(invocation)
    return enrich(text, contract.format) if contract is not None and contract.strategy is Strategy.PROMPT else text
