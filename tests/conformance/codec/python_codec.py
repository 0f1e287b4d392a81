"""A codec command on top of `ao_protocol`: one question per line on stdin, one answer per line on stdout."""

import json
import sys
from base64 import b64decode, b64encode
from collections.abc import Callable
from typing import Any

from ao_protocol.contracts import (
    ContractOverridden,
    InvalidOptions,
    InvalidSchema,
    JsonFormat,
    OutputContract,
    demands_of,
    enrich,
    resolve_contract,
)
from ao_protocol.documents import (
    InvalidControlLine,
    InvalidDescription,
    InvocationRefused,
    invocation_from_document,
    parse_control_line,
    parse_description,
)
from ao_protocol.errors import ErrorType, exit_code_of_failure
from ao_protocol.events import Failure, InvalidEvent, check_event, event_from_document
from ao_protocol.framing import EndedMidLine, LineSplitter, LineTooLong, NotIJson, decode_object, encode_line
from ao_protocol.inputs import ParametersInvalid, agent_text, check_parameters
from ao_protocol.lifecycle import (
    EndedWithoutTerminal,
    EventOutOfOrder,
    LifecycleError,
    RunLifecycle,
    SequenceBroken,
    ToolNotPaired,
    WrongRun,
)
from ao_protocol.version import SchemaVersion, announced_version, upgrade_invocation

Document = dict[str, Any]

REASONS = {
    "is not UTF-8": "not_utf8",
    "not JSON": "not_json",
    "expected a JSON object": "not_an_object",
    "duplicate key": "duplicate_key",
    "is outside": "integer_out_of_range",
    "is too large": "number_too_large",
    "nested deeper": "too_deep",
}
FAULTS: dict[type[LifecycleError], str] = {
    EventOutOfOrder: "event_out_of_order",
    SequenceBroken: "sequence_broken",
    WrongRun: "wrong_run",
    ToolNotPaired: "tool_not_paired",
    EndedWithoutTerminal: "ended_without_terminal",
}


def answer(question: Document) -> Document:
    return {"id": question["id"], **ANSWERS[question["kind"]](question)}


def read_line(question: Document) -> Document:
    try:
        return {"valid": True, "read_as": decode_object(b64decode(question["line_base64"]))}
    except NotIJson as error:
        reason = next(name for words, name in REASONS.items() if words in str(error))
        return {"valid": False, "reason": reason}


def split_lines(question: Document) -> Document:
    splitter = LineSplitter(question["max_line_bytes"])
    lines: list[Document] = []
    for chunk in question["chunks_base64"]:
        for line in splitter.feed(b64decode(chunk)):
            match line:
                case LineTooLong():
                    lines.append({"error": "line_too_long"})
                case _:
                    lines.append({"base64": b64encode(line).decode()})
    try:
        splitter.end()
    except EndedMidLine:
        return {"lines": lines, "ended_mid_line": True}
    return {"lines": lines, "ended_mid_line": False}


def judge_invocation(question: Document) -> Document:
    announces = str(announced_version(question["document"]))
    try:
        invocation_from_document(question["document"])
    except InvocationRefused as refused:
        details: Document = dict(refused.details or {})
        return {
            "valid": False,
            "error": refused.error_type,
            "details": details,
            "problem_at": paths_of(details.get("problems", [])),
            "announces": announces,
        }
    return {"valid": True, "announces": announces}


def upgrade(question: Document) -> Document:
    document = question["document"]
    return {"upgraded": upgrade_invocation(document, SchemaVersion.parse(document["schema_version"]))}


def judge_event(question: Document) -> Document:
    try:
        event_from_document(question["document"])
    except InvalidEvent as invalid:
        return {"valid": False, "problem_at": paths_of(invalid.problems)}
    return {"valid": True}


def judge_description(question: Document) -> Document:
    try:
        parse_description(encode_line(question["document"]))
    except InvalidDescription as invalid:
        return {"valid": False, "problem_at": paths_of(invalid.problems)}
    return {"valid": True}


def judge_control_line(question: Document) -> Document:
    try:
        return {"valid": True, "ignored": parse_control_line(encode_line(question["document"])) is None}
    except InvalidControlLine as invalid:
        return {"valid": False, "problem_at": paths_of(invalid.problems)}


def follow(question: Document) -> Document:
    lifecycle = RunLifecycle(question["invocation"]["run_id"], question["invocation"]["session_id"])
    for at, document in enumerate(question["events"]):
        try:
            check_event(document)
            lifecycle.receive(document)
        except LifecycleError as error:
            return {"valid": False, "fault": FAULTS[type(error)], "fault_at": at}
    try:
        lifecycle.end()
    except LifecycleError as error:
        return {"valid": False, "fault": FAULTS[type(error)]}
    return {"valid": True}


def exit_code(question: Document) -> Document:
    match event_from_document(question["terminal"]).body:
        case Failure(status=status, error=error):
            return {"exit_code": int(exit_code_of_failure(status, error.type, retryable=error.retryable))}
    return {"exit_code": 0}


def read_inputs(question: Document) -> Document:
    blueprint = {"name": "agent", "parameters_schema": question["parameters_schema"]}
    invocation = invocation_from_document(
        {
            "schema_version": "3.0",
            "mode": question["mode"],
            "executor_session_id": "abc",
            "parameters": question["parameters"],
            "agent_blueprint": blueprint,
        }
    )
    try:
        check_parameters(invocation)
    except ParametersInvalid as invalid:
        return {"problem_at": [problem.path for problem in invalid.problems]}
    return {"text": agent_text(invocation)}


def resolve(question: Document) -> Document:
    smallest = {"schema_version": "3.0", "mode": "start", "parameters": {"prompt": "Hi"}}
    try:
        contract = resolve_contract(demands_of(invocation_from_document(smallest | question["demanded"])))
    except InvalidSchema as error:
        return {"error": ErrorType.INVALID_OUTPUT_SCHEMA, "problem": str(error)}
    except (ContractOverridden, InvalidOptions) as error:
        return {"error": ErrorType.INVALID_INVOCATION, "problem": str(error)}
    return {"holds": None if contract is None else contract_document(contract)}


def contract_document(contract: OutputContract) -> Document:
    demanded = contract.format
    return {
        "schema_source": contract.source,
        "max_retries": contract.max_retries,
        "extract_json": contract.extract_json,
        "strict_json_only": contract.strict_json_only,
        "validation_mode": contract.validation_mode,
        **({"schema": demanded.schema} if isinstance(demanded, JsonFormat) else {"form": demanded.form}),
        **({} if contract.strategy is None else {"strategy": contract.strategy}),
    }


def enrich_prompt(question: Document) -> Document:
    return {"enriched": enrich(question["system_prompt"], JsonFormat(question["output_schema"]))}


def paths_of(problems: list[str]) -> list[str]:
    return [problem.split(": ")[0] for problem in problems]


ANSWERS: dict[str, Callable[[Document], Document]] = {
    "line": read_line,
    "framing": split_lines,
    "invocation": judge_invocation,
    "upgrade": upgrade,
    "event": judge_event,
    "description": judge_description,
    "control_line": judge_control_line,
    "conversation": follow,
    "exit_code": exit_code,
    "inputs": read_inputs,
    "contract": resolve,
    "enrichment": enrich_prompt,
}


if __name__ == "__main__":
    for line in sys.stdin.buffer:
        sys.stdout.write(json.dumps(answer(json.loads(line))) + "\n")
