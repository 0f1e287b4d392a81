"""Output contracts on the runner's side: what a run demands, who keeps it, and what the executor is told (SPEC 11.4).

A result is validated against the contract that its executor claims to have kept, where the caller wants that.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from ao_protocol.contracts import (
    AgentResponseFormat,
    Demands,
    OptionDefaults,
    OutputContract,
    Problem,
    SchemaSource,
    Strategy,
    demands_of_blueprint,
    enrich,
    options_to_send,
    problems_of_data,
)
from ao_protocol.documents import Blueprint, Description, OutputSchemaCapability
from ao_protocol.errors import ErrorType
from ao_protocol.events import ErrorInfo, Failure, Result, Terminal
from ao_protocol.json_path import below
from ao_protocol.wire import JsonObject
from ao_runner.processes.calls import CallNotFinished, call_apart
from ao_runner.store.records import Run

DEMANDING_FIELDS: Final = ("output_schema", "output_format", "default_output_schema", "default_output_schema_options")
"""What of a blueprint is left out for an executor that keeps no contract."""


@dataclass(frozen=True, slots=True)
class CallerDemand:
    """What the caller of a run demands of its answer. A schema with a name is one of the registry."""

    schema: JsonObject | None = None
    schema_name: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)


NO_CONTRACT: Final[JsonObject] = {"source": "none"}
"""The record of a run whose caller wants free text, also where the blueprint has a default schema."""


def not_keeping_rejected_answers(record: JsonObject | None) -> JsonObject:
    """Return the record of a run's demand whose caller does not want rejected answers to be stored."""
    return {**(record or {}), "keep_rejected": False}


def keeps_rejected_answers(run: Run) -> bool:
    """Tell whether the caller of a run lets rejected answers be stored."""
    return (run.contract or {}).get("keep_rejected") is not False


def without_default(blueprint: JsonObject, run: Run) -> JsonObject:
    """Return the blueprint of a run, without its default contract where the caller wants none."""
    if run.contract is None or run.contract.get("source") != NO_CONTRACT["source"]:
        return blueprint
    return {name: value for name, value in blueprint.items() if not name.startswith("default_output_schema")}


def demands_together(blueprint: Blueprint, caller: CallerDemand) -> Demands:
    """Return what designer and caller demand."""
    is_named = caller.schema_name is not None
    return replace(
        demands_of_blueprint(blueprint),
        inline=None if is_named else caller.schema,
        named=caller.schema if is_named else None,
        options=caller.options,
    )


def demand_record(blueprint: Blueprint, caller: CallerDemand, defaults: OptionDefaults) -> JsonObject | None:
    """Return what is kept of a run's demand, and sent: `source`, `schema`, `schema_name`, `options`.

    None where only the designer demands anything, and the caller does not say how to ask for it.
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
    """Return everything that is asked of a run's answer, the designer's demands included."""
    record: Mapping[str, Any] = run.contract or {}
    is_callers = record.get("source") in {SchemaSource.INLINE, SchemaSource.NAMED}
    schema = record.get("schema") if is_callers else None
    return demands_together(blueprint, CallerDemand(schema, record.get("schema_name"), record.get("options") or {}))


def contract_fields(run: Run) -> JsonObject:
    """Return what an invocation says of the contract to an executor that keeps it."""
    record: Mapping[str, Any] = run.contract or {}
    fields: JsonObject = {}
    if "schema" in record:
        fields |= {"output_schema": record["schema"], "output_schema_source": record["source"]}
    if record.get("options"):
        fields["output_schema_options"] = record["options"]
    return fields


def keeps_itself(description: Description, contract: OutputContract) -> bool:
    """Tell whether the executor keeps a contract of this format."""
    capability = description.capabilities.output_schema
    if not isinstance(capability, OutputSchemaCapability):
        return False
    return not isinstance(contract.format, AgentResponseFormat) or "agent_response" in capability.formats


def strategies_for(blueprint: Blueprint) -> tuple[Strategy, ...]:
    """Return how the runner can ask for a contract that it keeps: it writes into prompts and has no provider."""
    if blueprint.type == "procedural":
        return (Strategy.EXTRACT,)
    return (Strategy.PROMPT, Strategy.SYSTEM_PROMPT, Strategy.EXTRACT)


def without_contract(invocation: JsonObject, contract: OutputContract) -> JsonObject:
    """Return the invocation for an executor that knows nothing of contracts: the demand stands in a prompt of it."""
    blueprint: dict[str, Any] = dict(_object(invocation["agent_blueprint"]))
    for demanding in DEMANDING_FIELDS:
        blueprint.pop(demanding, None)
    if contract.strategy is Strategy.SYSTEM_PROMPT:
        blueprint["system_prompt"] = enrich(blueprint.get("system_prompt"), contract.format)
    kept = {name: value for name, value in invocation.items() if not name.startswith("output_schema")}
    if contract.strategy is Strategy.PROMPT:
        kept["prompt"] = enrich(str(kept["prompt"]), contract.format)
    return {**kept, "agent_blueprint": blueprint}


def asked_again(invocation: JsonObject, executor_session_id: str | None, prompt: str) -> JsonObject:
    """Return the invocation that goes on with the executor's session and asks for another answer."""
    return {
        **invocation,
        "mode": "resume",
        "executor_session_id": executor_session_id,
        "parameters": {"prompt": prompt},
        "prompt": prompt,
    }


def _object(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


JUDGING_SECONDS = 10.0
"""How long another process may judge one answer."""
_SHOWN_PROBLEMS = 3


def verified(terminal: Terminal, contract: OutputContract, executor_name: str) -> Terminal:
    """Return the terminal event, or the failure that a result means which does not keep its contract."""
    problems = _lies(terminal, contract) if isinstance(terminal, Result) else []
    if not problems:
        return terminal
    more = len(problems) - _SHOWN_PROBLEMS
    listed = "; ".join(problems[:_SHOWN_PROBLEMS]) + (f"; and {more} more" if more > 0 else "")
    error = ErrorInfo(
        type=ErrorType.PROTOCOL_VIOLATION,
        message=f"executor {executor_name} claims that its result fits the output contract, but it does not: {listed}",
        retryable=False,
        side_effects="possible",
        origin="executor",
        validation_errors=problems,
    )
    return Failure(status="failed", error=error, usage=terminal.usage)


async def verified_apart(result: Result, verify: Callable[[Terminal], Terminal]) -> Terminal:
    """Return what `verify` does, called in another process."""
    try:
        return await call_apart(JUDGING_SECONDS, verify, result)
    except CallNotFinished as error:
        info = ErrorInfo(
            type=ErrorType.PROTOCOL_VIOLATION,
            message=f"the result could not be verified by its output contract: {error}; give a shorter result",
            retryable=False,
            side_effects="possible",
            origin="executor",
        )
        return Failure(status="failed", error=info, usage=result.usage)


def _lies(result: Result, contract: OutputContract) -> list[str]:
    if result.result_text is not None:
        return [str(Problem(below("$", "result_text"), "is present, but a contract requires result_data"))]
    problems = [*_false_claims(result, contract), *problems_of_data(result.result_data, contract.format)]
    return [str(problem) for problem in problems]


def _false_claims(result: Result, contract: OutputContract) -> Iterator[Problem]:
    output = result.output
    if output is None:
        yield Problem("$.output", "is missing, and a result under a contract has it")
        return
    if output.schema_source != contract.source:
        yield Problem("$.output.schema_source", f"expected {str(contract.source)!r}, found {output.schema_source!r}")
    if output.retry_count > contract.max_retries:
        yield Problem("$.output.retry_count", f"expected at most {contract.max_retries}, found {output.retry_count}")
