"""Every published vector, played through this implementation."""

import re
from base64 import b64decode
from collections.abc import Callable
from typing import Any

import pytest

from ao_conformance.codec_suite import are_paths
from ao_conformance.matching import difference
from ao_protocol.contracts import (
    Ambiguity,
    ContractOverridden,
    InvalidOptions,
    InvalidSchema,
    JsonFormat,
    OutputContract,
    demand_in,
    enrich,
    resolve_contract,
)
from ao_protocol.control_lines import parse_control_line
from ao_protocol.documents import InvocationRefused, invocation_from_document, parse_description
from ao_protocol.errors import exit_code_of_failure
from ao_protocol.events import Failure, check_event, event_from_document
from ao_protocol.framing import EndedMidLine, LineSplitter, LineTooLong, NotIJson, decode_object, encode_line
from ao_protocol.inputs import ParametersInvalid, agent_text, check_parameters
from ao_protocol.lifecycle import (
    EndedWithoutTerminal,
    EventOutOfOrder,
    InputNotPaired,
    LifecycleError,
    RunLifecycle,
    SequenceBroken,
    ToolNotPaired,
    WrongRun,
)
from ao_protocol.published import Vector, load_vector_files, load_vectors, validator_for
from ao_protocol.version import SchemaVersion, announced_version, upgrade_invocation
from ao_protocol.wire import InvalidDocument

REASONS = {
    "not_utf8": "is not UTF-8",
    "not_json": "not JSON",
    "not_an_object": "expected a JSON object",
    "duplicate_key": "duplicate key",
    "integer_out_of_range": "is outside",
    "number_too_large": "is too large",
    "too_deep": "nested deeper",
}
FAULTS: dict[str, type[LifecycleError]] = {
    "event_out_of_order": EventOutOfOrder,
    "sequence_broken": SequenceBroken,
    "wrong_run": WrongRun,
    "tool_not_paired": ToolNotPaired,
    "input_not_paired": InputNotPaired,
    "ended_without_terminal": EndedWithoutTerminal,
}


def each(*kinds: str) -> pytest.MarkDecorator:
    vectors = [vector for kind in kinds for vector in load_vectors(kind)]
    return pytest.mark.parametrize("vector", vectors, ids=[vector["id"] for vector in vectors])


def has_paths(vector: Vector, problems: object) -> bool:
    assert isinstance(problems, list)
    found = {problem.split(": ")[0] for problem in problems}
    return are_paths(vector["problem_at"], found, or_inside=vector.get("or_inside", False))


@pytest.mark.parametrize(("path", "document"), load_vector_files(), ids=[path for path, _ in load_vector_files()])
def test_a_vector_file_keeps_the_published_schema(path: str, document: Vector) -> None:
    assert [error.message for error in validator_for("vector").iter_errors(document)] == []


def test_no_two_vectors_have_the_same_id() -> None:
    ids = [vector["id"] for vector in load_vectors()]

    assert len(ids) == len(set(ids))


@each("line")
def test_a_line_is_read_as_its_vector_says(vector: Vector) -> None:
    line = b64decode(vector["line_base64"]) if "line_base64" in vector else vector["line"].encode()

    if vector["valid"]:
        document = decode_object(line)
        assert vector.get("read_as", document) == document
    else:
        with pytest.raises(NotIJson) as refused:
            decode_object(line)
        assert REASONS[vector["reason"]] in str(refused.value)


@each("framing")
def test_bytes_become_the_lines_that_their_vector_names(vector: Vector) -> None:
    splitter = LineSplitter(vector["max_line_bytes"])
    lines = [line for chunk in vector["chunks_base64"] for line in splitter.feed(b64decode(chunk))]

    assert [None if isinstance(line, LineTooLong) else line for line in lines] == [
        b64decode(line["base64"]) if "base64" in line else None for line in vector["lines"]
    ]
    if vector["ended_mid_line"]:
        with pytest.raises(EndedMidLine):
            splitter.end()
    else:
        splitter.end()


@each("invocation")
def test_an_invocation_is_announced_and_accepted_or_refused_as_its_vector_says(vector: Vector) -> None:
    announced = str(announced_version(vector["document"]))
    assert vector.get("announces", announced) == announced
    if vector["valid"]:
        invocation_from_document(vector["document"])
        return
    with pytest.raises(InvocationRefused) as refused:
        invocation_from_document(vector["document"])
    details = refused.value.details or {}
    assert refused.value.error_type == vector["error"]
    assert difference(vector.get("details", {}), details) is None
    if "problem_at" in vector:
        assert has_paths(vector, details["problems"])


@each("upgrade")
def test_an_older_invocation_is_upgraded_as_its_vector_says(vector: Vector) -> None:
    document = vector["document"]

    assert upgrade_invocation(document, SchemaVersion.parse(document["schema_version"])) == vector["upgraded"]


PARSERS: dict[str, Callable[[Any], object]] = {
    "event": event_from_document,
    "description": lambda document: parse_description(encode_line(document)),
    "control_line": lambda document: parse_control_line(encode_line(document)),
}


@each("event", "description", "control_line")
def test_a_document_is_accepted_ignored_or_refused_as_its_vector_says(vector: Vector) -> None:
    parse = PARSERS[vector["kind"]]
    if vector["valid"]:
        assert (parse(vector["document"]) is None) == vector.get("ignored", False)
        return
    with pytest.raises(InvalidDocument) as invalid:
        parse(vector["document"])
    assert has_paths(vector, invalid.value.problems)


@each("conversation")
def test_events_make_a_run_or_the_fault_that_their_vector_names(vector: Vector) -> None:
    lifecycle = RunLifecycle(vector["invocation"]["run_id"], vector["invocation"]["session_id"])
    events = vector["events"]
    fault_at = vector.get("fault_at", len(events))

    for event in events[:fault_at]:
        check_event(event)
        lifecycle.receive(event)
    if vector["valid"]:
        lifecycle.end()
        return
    with pytest.raises(FAULTS[vector["fault"]]):
        lifecycle.end() if fault_at == len(events) else lifecycle.receive(events[fault_at])


@each("exit_code")
def test_a_terminal_event_has_the_exit_code_that_its_vector_says(vector: Vector) -> None:
    match event_from_document(vector["terminal"]).body:
        case Failure(status=status, error=error):
            assert exit_code_of_failure(status, error.type, retryable=error.retryable) == vector["exit_code"]
        case _:
            assert vector["exit_code"] == 0


@each("inputs")
def test_parameters_become_the_text_or_the_problems_that_their_vector_says(vector: Vector) -> None:
    invocation = invocation_from_document(
        {
            "schema_version": "3.0",
            "mode": vector["mode"],
            "executor_session_id": "abc",
            "parameters": vector["parameters"],
            "agent_blueprint": {"name": "agent", "parameters_schema": vector["parameters_schema"]},
        }
    )
    if "text" in vector:
        check_parameters(invocation)
        assert agent_text(invocation) == vector["text"]
        return
    with pytest.raises(ParametersInvalid) as invalid:
        check_parameters(invocation)
    assert sorted({problem.path for problem in invalid.value.problems}) == sorted(vector["problem_at"])


def contract_document(contract: OutputContract) -> dict[str, object]:
    """Return a contract as vectors write it."""
    demanded = (
        {"schema": contract.format.schema}
        if isinstance(contract.format, JsonFormat)
        else {"form": contract.format.form}
    )
    return {
        "schema_source": contract.source,
        "max_retries": contract.max_retries,
        "extract_json": contract.extract_json,
        "strict_json_only": contract.strict_json_only,
        "validation_mode": contract.validation_mode,
        **demanded,
        **({} if contract.strategy is None else {"strategy": contract.strategy}),
        **({} if contract.ambiguous is Ambiguity.REPORT else {"ambiguous": contract.ambiguous}),
    }


@each("contract")
def test_the_contract_that_holds_is_the_one_of_its_vector(vector: Vector) -> None:
    invocation = invocation_from_document(
        {"schema_version": "3.0", "mode": "start", "parameters": {"prompt": "Hi"}, **vector["demanded"]}
    )
    if "error" in vector:
        expected = InvalidSchema if vector["error"] == "invalid_output_schema" else (ContractOverridden, InvalidOptions)
        with pytest.raises(expected, match=re.escape(vector["problem"])):
            resolve_contract(demand_in(invocation))
        return
    contract = resolve_contract(demand_in(invocation))
    assert (None if contract is None else contract_document(contract)) == vector["holds"]


@each("enrichment")
def test_a_system_prompt_is_enriched_word_by_word_as_its_vector_says(vector: Vector) -> None:
    assert enrich(vector["system_prompt"], JsonFormat(vector["output_schema"])) == vector["enriched"]
