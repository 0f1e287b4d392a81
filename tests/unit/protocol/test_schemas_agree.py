"""The published schemas and the models of this package give the same verdict."""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ao_protocol.control_lines import CONTROL_LINES, InvalidControlLine, parse_control_line
from ao_protocol.documents import InvalidDescription, InvocationRefused, invocation_from_document, parse_description
from ao_protocol.errors import ErrorType
from ao_protocol.events import BODIES, InvalidEvent, event_from_document
from ao_protocol.framing import encode_line
from ao_protocol.published import UnknownSchema, Vector, load_schema, load_vectors, schema_names, validator_for

SCHEMAS = {name: validator_for(name) for name in schema_names()}
BUNDLED = {
    name: validator_for("protocol", part=name)
    for name in ("blueprint", "control-line", "description", "error", "event", "invocation")
}
OF_EVENTS = {kind: validator_for("event", part=kind) for kind in (*BODIES, "vendor_event")}
JUDGED_KINDS = ("invocation", "event", "description", "control_line")


def schema_name_for(kind: str, document: Vector) -> str:
    if kind != "invocation":
        return kind.replace("_", "-")
    version = str(document.get("schema_version"))
    if version in {"2.0", "2.1"}:
        return "invocation-2.1"
    return "invocation-2.2" if version.startswith("2.") else "invocation"


def the_schema_accepts(kind: str, document: Vector) -> bool:
    verdict = bool(SCHEMAS[schema_name_for(kind, document)].is_valid(document))
    if kind == "event":  # a runner asks the schema of the type alone
        event_type = document.get("event_type")
        of_type = OF_EVENTS.get(event_type if isinstance(event_type, str) else "", OF_EVENTS["vendor_event"])
        assert of_type.is_valid(document) == verdict
    return verdict


def invocation_is_well_formed(document: Vector) -> bool:
    try:
        invocation_from_document(document)
    except InvocationRefused as refused:
        return refused.error_type is ErrorType.UNSUPPORTED_CAPABILITY
    return True


def accepted_by(parse: Callable[[Any], object], error: type[Exception]) -> Callable[[Vector], bool]:
    def accepts(document: Vector) -> bool:
        try:
            parse(document)
        except error:
            return False
        return True

    return accepts


THE_MODEL_ACCEPTS: dict[str, Callable[[Vector], bool]] = {
    "invocation": invocation_is_well_formed,
    "event": accepted_by(event_from_document, InvalidEvent),
    "description": accepted_by(lambda document: parse_description(encode_line(document)), InvalidDescription),
    "control_line": accepted_by(lambda document: parse_control_line(encode_line(document)), InvalidControlLine),
}
JUDGED = [vector for kind in JUDGED_KINDS for vector in load_vectors(kind)]
CONVERSATION_EVENTS = [event for vector in load_vectors("conversation") for event in vector["events"]]


@pytest.mark.parametrize("vector", JUDGED, ids=[vector["id"] for vector in JUDGED])
def test_schema_and_model_agree_on_a_vector(vector: Vector) -> None:
    kind, document = vector["kind"], vector["document"]

    assert the_schema_accepts(kind, document) == THE_MODEL_ACCEPTS[kind](document)


@pytest.mark.parametrize("vector", load_vectors("process"), ids=lambda vector: vector["id"])
def test_schema_and_model_agree_on_what_a_process_is_given(vector: Vector) -> None:
    document = vector.get("invocation", {})

    assert the_schema_accepts("invocation", document) == invocation_is_well_formed(document)


def test_schema_and_model_agree_on_the_events_of_conversations() -> None:
    for document in CONVERSATION_EVENTS:
        assert the_schema_accepts("event", document)
        assert THE_MODEL_ACCEPTS["event"](document)


ODD_VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 7, 1.0, 1.5, -0.5, 2**53 - 1, 1e300),
    *("", "x", "/", "1", "open", "http", "stdio", "cancelled", "3.0", "_a/b", "https://x"),
    *([], [1], ["x"], [None], {}, {"x": 1}, {"name": "x"}, {"type": "stdio"}),
)


def places(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for part, child in children:
        yield (*path, part)
        yield from places(child, (*path, part))


def value_at(document: Any, path: Sequence[str | int]) -> Any:
    for part in path:
        document = document[part]
    return document


@st.composite
def mutated_documents(draw: st.DrawFn) -> tuple[str, Vector]:
    """Draw a valid document of which a field or two was dropped, or became something else."""
    vector = draw(st.sampled_from([vector for vector in JUDGED if vector["valid"]]))
    document = deepcopy(vector["document"])
    for _ in range(draw(st.integers(1, 2))):
        *above, last = draw(st.sampled_from([*places(document), ("x_unknown",)]))
        parent: Any = value_at(document, above)
        is_there = last in (range(len(parent)) if isinstance(parent, list) else parent)
        if is_there and draw(st.booleans()):
            del parent[last]
        elif last != "schema_version":
            parent[last] = deepcopy(draw(st.sampled_from(ODD_VALUES)))
    return vector["kind"], document


@given(mutated_documents())
def test_schema_and_model_agree_on_any_mutation_of_a_valid_document(mutated: tuple[str, Vector]) -> None:
    kind, document = mutated

    assert the_schema_accepts(kind, document) == THE_MODEL_ACCEPTS[kind](document)


@pytest.mark.parametrize("name", schema_names())
def test_a_schema_says_what_it_is_and_refers_to_its_own_version_only(name: str) -> None:
    schema = load_schema(name)
    references = references_of(schema)

    assert schema["$id"] == f"{name}.schema.json"
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert schema["title"]
    assert schema["description"]
    files = {f"{known}.schema.json" for known in schema_names()}
    assert {reference.partition("#/$defs/")[0] for reference in references} <= files | {""}


def references_of(schema: Any) -> list[str]:
    return re.findall(r'"\$ref": "([^"]+)"', json.dumps(schema))


@pytest.mark.parametrize("vector", JUDGED, ids=[vector["id"] for vector in JUDGED])
def test_the_bundle_gives_the_verdict_of_the_single_file(vector: Vector) -> None:
    name, document = schema_name_for(vector["kind"], vector["document"]), vector["document"]
    if name in BUNDLED:
        assert BUNDLED[name].is_valid(document) == SCHEMAS[name].is_valid(document)


def test_the_bundle_refers_to_no_other_file() -> None:
    assert {reference.partition("#")[0] for reference in references_of(load_schema("protocol"))} == {""}


@pytest.mark.parametrize(
    ("schema", "union", "tag", "members"),
    [
        ("event", "standard_event", "event_type", set(BODIES)),
        ("control-line", "standard_control_line", "type", set(CONTROL_LINES)),
    ],
    ids=["events", "control lines"],
)
@pytest.mark.parametrize("file", ["its own", "protocol"])
def test_a_required_constant_tells_the_members_of_a_union_apart(
    file: str, schema: str, union: str, tag: str, members: set[str]
) -> None:
    parts: Any = load_schema(schema if file == "its own" else file)["$defs"]
    names = [branch["$ref"].removeprefix("#/$defs/") for branch in parts[union]["anyOf"]]

    assert set(names) == members
    assert {name: parts[name]["properties"][tag] for name in names} == {
        name: {"type": "string", "const": name} for name in names
    }
    assert [name for name in names if tag not in parts[name]["required"]] == []


@pytest.mark.parametrize(
    ("version", "known"),
    [
        (
            "3.0",
            "blueprint, conformance-report, control-line, description, error, event, invocation, invocation-2.1, "
            "invocation-2.2, protocol, requirement, vector",
        ),
        ("9.9", "none"),
    ],
)
def test_an_unknown_schema_is_an_error_that_names_the_known_ones(version: str, known: str) -> None:
    with pytest.raises(UnknownSchema, match=rf"^version {version} has no schema 'invoice'; known are {known}$"):
        load_schema("invoice", version)


def test_a_loaded_schema_is_the_callers_own() -> None:
    load_schema("event")["title"] = "spoiled"

    assert load_schema("event")["title"] == "Event"
