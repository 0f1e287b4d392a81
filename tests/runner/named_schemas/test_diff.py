"""How two schemas differ, with literals; then that what is called wider really is, for any schemas and values."""

import json
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ao_protocol.output import InvalidSchema, is_valid
from ao_runner.named_schemas.diff import compare_schemas

TEXT: dict[str, Any] = {"type": "string"}
WHOLE: dict[str, Any] = {"type": "integer"}
NULL: dict[str, Any] = {"type": "null"}


def members(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def closed(**properties: Any) -> dict[str, Any]:
    return {**members(**properties), "additionalProperties": False}


def tagged(tag: str, **properties: Any) -> dict[str, Any]:
    return {**members(kind={"const": tag}, **properties), "required": ["kind"]}


def report(severities: list[str]) -> dict[str, Any]:
    issue = members(severity={"enum": severities}, causes={"type": "array", "items": {"$ref": "#/definitions/issue"}})
    worst = {"anyOf": [{"$ref": "#/definitions/issue"}, NULL]}
    return {**members(worst=worst), "definitions": {"issue": issue}}


def told(old: dict[str, Any], new: dict[str, Any]) -> tuple[str, list[str]]:
    """Return the verdict, and each difference as a line: what was done, where, what, and what that does."""
    comparison = compare_schemas(old, new)
    marks = {"added": "+", "removed": "-", "changed": "~"}
    lines = [f"{marks[item.change]} {item.place}: {item.what} ({item.effect})" for item in comparison.differences]
    return comparison.verdict, lines


CASES: dict[str, tuple[dict[str, Any], dict[str, Any], str, list[str]]] = {
    "the same": (members(a=TEXT), members(a=TEXT), "same", []),
    "keys in another order": ({"type": "string", "minLength": 1}, {"minLength": 1, "type": "string"}, "same", []),
    "annotations": (
        {**TEXT, "title": "a", "default": "x"},
        {**TEXT, "title": "b", "description": "c"},
        "same",
        [
            '~ $.title: "a" → "b" (annotation)',
            '+ $.description: "c" (annotation)',
            '- $.default: was "x" (annotation)',
        ],
    ),
    "a format that is checked": (TEXT, {**TEXT, "format": "date"}, "narrower", ['+ $.format: "date" (narrower)']),
    "a format less": ({**TEXT, "format": "date"}, TEXT, "wider", ['- $.format: was "date" (wider)']),
    "a type more": (WHOLE, {"type": "number"}, "wider", ["~ $.type: integer → number (wider)"]),
    "a type less": (
        {"type": ["string", "null"]},
        TEXT,
        "narrower",
        ["~ $.type: string or null → string (narrower)"],
    ),
    "null allowed, too": (
        members(a=TEXT),
        members(a={"anyOf": [TEXT, NULL]}),
        "wider",
        ["~ $.properties.a: string → string or null (wider)"],
    ),
    "null no more": (
        members(a={"anyOf": [TEXT, NULL]}),
        members(a=TEXT),
        "narrower",
        ["~ $.properties.a: string or null → string (narrower)"],
    ),
    "one value, then several": (
        {"const": "x"},
        {"enum": ["x", "y"]},
        "wider",
        ['~ $: "x" → one of "x", "y" (wider)'],
    ),
    "other values": (
        {"enum": ["low", "critical"]},
        {"enum": ["low", "high"]},
        "narrower",
        ['+ $.enum: "high" (wider)', '- $.enum: was "critical" (narrower)'],
    ),
    "a value less that never fitted": (
        {"enum": ["low", 1], **TEXT},
        {"enum": ["low"], **TEXT},
        "same",
        ["- $.enum: was 1 (same)"],
    ),
    "a bound": (
        {**WHOLE, "minimum": 1},
        {**WHOLE, "minimum": 2, "maximum": 5},
        "narrower",
        ["~ $.minimum: 1 → 2 (narrower)", "+ $.maximum: 5 (narrower)"],
    ),
    "a bound in other words": (
        {**WHOLE, "exclusiveMinimum": 0},
        {**WHOLE, "minimum": 1},
        "same",
        ["+ $.minimum: 1 (same)", "- $.exclusiveMinimum: was 0 (same)"],
    ),
    "multiples": ({"multipleOf": 0.3}, {"multipleOf": 0.1}, "wider", ["~ $.multipleOf: 0.3 → 0.1 (wider)"]),
    "a bound of what cannot come": (TEXT, {**TEXT, "minimum": 1}, "same", ["+ $.minimum: 1 (same)"]),
    "a pattern": ({"pattern": "a"}, {"pattern": "b"}, "unclear", ['~ $.pattern: "a" → "b" (unclear)']),
    "a new pattern": (TEXT, {**TEXT, "pattern": "a"}, "narrower", ['+ $.pattern: "a" (narrower)']),
    "a property more, of an open object": (
        members(),
        members(a=TEXT),
        "narrower",
        ["+ $.properties.a: property: string; any value could stand under this name before (narrower)"],
    ),
    "a property more, of a closed object": (
        closed(),
        closed(a=TEXT),
        "wider",
        ["+ $.properties.a: property: string (wider)"],
    ),
    "a property less, of an open object": (
        members(a=TEXT),
        members(),
        "wider",
        ["- $.properties.a: property: was string (wider)"],
    ),
    "a property less, of a closed object": (
        closed(a=TEXT),
        closed(),
        "narrower",
        ["- $.properties.a: property: was string; it is refused now (narrower)"],
    ),
    "closed": (
        members(a=TEXT),
        closed(a=TEXT),
        "narrower",
        ["+ $.additionalProperties: other properties: allowed → refused (narrower)"],
    ),
    "opened": (
        closed(a=TEXT),
        members(a=TEXT),
        "wider",
        ["- $.additionalProperties: other properties: refused → allowed (wider)"],
    ),
    "required": (
        {"required": ["a", "b"]},
        {"required": ["b", "c"]},
        "narrower",
        ['+ $.required: "c" must be there (narrower)', '- $.required: "a" may be missing (wider)'],
    ),
    "inside a definition, told once": (
        report(["low"]),
        report(["low", "high"]),
        "wider",
        ['+ $.definitions.issue.properties.severity.enum: "high" (wider)'],
    ),
    "inside what may be null now": (
        {**members(a={"$ref": "#/definitions/x"}), "definitions": {"x": members(b=TEXT)}},
        {**members(a={"anyOf": [{"$ref": "#/definitions/x"}, NULL]}), "definitions": {"x": members(b=WHOLE)}},
        "narrower",
        [
            "~ $.properties.a: x → x or null (wider)",
            "~ $.definitions.x.properties.b.type: string → integer (narrower)",
        ],
    ),
    "a definition nobody refers to": (
        {"definitions": {"x": TEXT, "y": TEXT}},
        {"definitions": {"x": WHOLE, "z": NULL}},
        "same",
        [
            "+ $.definitions.z: definition: null (same)",
            "- $.definitions.y: definition: was string (same)",
            "~ $.definitions.x.type: string → integer (same)",
        ],
    ),
    "a definition by another name": (
        {"items": {"$ref": "#/definitions/x"}, "definitions": {"x": TEXT}},
        {"items": {"$ref": "#/definitions/y"}, "definitions": {"y": TEXT}},
        "same",
        ["+ $.definitions.y: definition: string (same)", "- $.definitions.x: definition: was string (same)"],
    ),
    "an alternative more": (
        {"oneOf": [tagged("a"), tagged("b")]},
        {"oneOf": [tagged("b"), tagged("c"), tagged("a")]},
        "wider",
        ["+ $.oneOf[1]: object (wider)"],
    ),
    "inside an alternative": (
        {"oneOf": [tagged("a"), tagged("b", n=WHOLE)]},
        {"oneOf": [tagged("a"), tagged("b", n={"type": "number"})]},
        "wider",
        ["~ $.oneOf[1].properties.n.type: integer → number (wider)"],
    ),
    "an alternative less": (
        {"anyOf": [TEXT, WHOLE, NULL]},
        {"anyOf": [TEXT, WHOLE]},
        "narrower",
        ["- $.anyOf[2]: was null (narrower)"],
    ),
    "alternatives that may both fit": (
        {"oneOf": [{"minimum": 1}, {"maximum": 5}]},
        {"oneOf": [{"minimum": 2}, {"maximum": 5}]},
        "unclear",
        ["~ $.oneOf[0].minimum: 1 → 2 (unclear)"],
    ),
    "a demand less": (
        {"allOf": [members(a=TEXT), members(b=TEXT)]},
        {"allOf": [members(a=TEXT)]},
        "wider",
        ["- $.allOf[1]: was object (wider)"],
    ),
    "what is refused": (
        {"not": {"type": "string"}},
        {"not": {"type": ["string", "null"]}},
        "narrower",
        ["~ $.not.type: string → string or null (narrower)"],
    ),
    "a consequence": (
        {"if": {"required": ["a"]}, "then": {"required": ["b"]}},
        {"if": {"required": ["a"]}, "then": {"required": ["b", "c"]}},
        "narrower",
        ['+ $.then.required: "c" must be there (narrower)'],
    ),
    "a condition": (
        {"if": {"required": ["a"]}, "then": {"required": ["b"]}},
        {"if": {"required": ["c"]}, "then": {"required": ["b"]}},
        "unclear",
        ['+ $.if.required: "c" must be there (unclear)', '- $.if.required: "a" may be missing (unclear)'],
    ),
    "items by position": (
        {"items": [TEXT, WHOLE]},
        {"items": [TEXT], "additionalItems": False},
        "narrower",
        [
            "- $.items[1]: item: was integer (narrower)",
            "+ $.additionalItems: items behind those that are listed: allowed → refused (narrower)",
        ],
    ),
    "items": (
        {"type": "array", "items": TEXT},
        {"type": "array", "items": WHOLE, "uniqueItems": True},
        "narrower",
        ["+ $.uniqueItems: true (narrower)", "~ $.items.type: string → integer (narrower)"],
    ),
    "dependencies": (
        {"dependencies": {"a": ["b"], "c": TEXT}},
        {"dependencies": {"a": ["b", "d"]}},
        "narrower",
        [
            '~ $.dependencies.a: with this property: "b" must be there → "b", "d" must be there (narrower)',
            "- $.dependencies.c: with this property: was string (wider)",
        ],
    ),
    "names of properties": (
        {"propertyNames": {"maxLength": 5}},
        {"propertyNames": {"maxLength": 9}},
        "wider",
        ["~ $.propertyNames.maxLength: 5 → 9 (wider)"],
    ),
    "nothing, then something": (
        members(a=False),
        members(a=TEXT),
        "wider",
        ["~ $.properties.a: nothing → string (wider)"],
    ),
    "an identifier": (
        {"$id": "http://example/a"},
        {"$id": "http://example/b"},
        "same",
        ["~ $: only written in another way: order, identifiers, references (same)"],
    ),
    "an unknown keyword": ({"x": 1}, {"x": True}, "same", ["~ $.x: 1 → true (annotation)"]),
}


@pytest.mark.parametrize("name", CASES)
def test_each_difference_is_told_with_its_place_and_what_it_does(name: str) -> None:
    old, new, verdict, lines = CASES[name]

    assert told(old, new) == (verdict, lines)


@pytest.mark.parametrize("name", CASES)
def test_no_schema_differs_from_itself(name: str) -> None:
    for schema in CASES[name][:2]:
        assert told(schema, schema) == ("same", [])


def two_of_a_family(value: dict[str, Any], whole: dict[str, Any]) -> dict[str, Any]:
    """Return a schema with definitions that refer to each other: `one` holds a value, and both hold the other."""
    one = members(other={"$ref": "#/definitions/two"}, value=value)
    return {**whole, "definitions": {"one": one, "two": members(other={"$ref": "#/definitions/one"})}}


ONE, TWO = {"$ref": "#/definitions/one"}, {"$ref": "#/definitions/two"}
REFUSED: dict[str, tuple[dict[str, Any], dict[str, Any], Any]] = {
    "the bound itself": ({"minimum": 0}, {"exclusiveMinimum": 0}, 0),
    "the upper bound itself": ({"maximum": 0}, {"exclusiveMaximum": 0}, 0),
    "an item that nothing was said of": ({}, {"items": TEXT}, [1]),
    "an item behind those by position": ({"items": [TEXT]}, {"items": TEXT}, ["a", 1]),
    "a member that nothing was said of": ({}, {"patternProperties": {"^a": TEXT}}, {"ab": 1}),
    "a member that another pattern caught": (
        {"patternProperties": {"^a": WHOLE}},
        {"patternProperties": {"b$": TEXT}},
        {"ab": 1},
    ),
    "a member by name that a pattern catches": (members(ab=WHOLE), {"patternProperties": {"^a": TEXT}}, {"ab": 1}),
    "what a condition does not hold for": ({}, {"if": TEXT, "else": {"const": 1}}, 2),
    "what a condition holds for": ({}, {"if": TEXT, "then": {"const": "a"}}, "b"),
    "a value that two alternatives accept": ({"anyOf": [WHOLE, {"minimum": 1}]}, {"oneOf": [WHOLE, {"minimum": 1}]}, 2),
    "what is refused now": ({"not": TEXT}, {"not": {"type": ["string", "null"]}}, None),
    "one that equals true in Python only": ({"enum": [1, True]}, {"const": True}, 1),
    "a name that is refused": (members(a=TEXT), {"propertyNames": {"maxLength": 1}}, {"ab": 1}),
    "what rests on a claim that fails": (
        two_of_a_family(WHOLE, members(m=ONE, n=TWO)),
        two_of_a_family(TEXT, {"anyOf": [members(m=ONE), members(n=TWO)]}),
        {"m": {"value": 1}, "n": {"other": {"value": 1}}},
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_where_a_value_is_refused_nobody_says_that_all_are_accepted(name: str) -> None:
    old, new, value = REFUSED[name]

    assert (is_valid(value, old), is_valid(value, new)) == (True, False)
    assert compare_schemas(old, new).verdict in {"narrower", "unclear"}


PROVEN: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "several types, each by an alternative": ({"type": ["string", "null"]}, {"anyOf": [NULL, WHOLE, TEXT]}),
    "alternatives, each by another": (
        {"anyOf": [{"const": "a"}, {"const": 1}]},
        {"anyOf": [WHOLE, {"type": "boolean"}, TEXT]},
    ),
    "several schemas together": ({"allOf": [{"minimum": 1}, {"type": "integer"}]}, {"type": "number", "minimum": 0}),
    "closed objects": (closed(a=TEXT), {"type": "object", "propertyNames": {"enum": ["a", "b"]}, "maxProperties": 1}),
    "tuples": ({"items": [TEXT, WHOLE], "additionalItems": False}, {"items": {"type": ["string", "number"]}}),
    "a full list": ({"type": "array", "items": TEXT, "minItems": 1}, {"contains": TEXT}),
    "what is there anyway": (
        {"required": ["a", "b"], "dependencies": {"b": ["c"]}},
        {"dependencies": {"a": ["b"], "b": ["a", "c"]}, "minProperties": 2},
    ),
    "what cannot come": ({"type": "object", **tagged("a")}, {"not": tagged("b")}),
    "the same condition": (
        {"if": {"required": ["a"]}, "then": {"required": ["b", "c"]}, "else": {"maxProperties": 1}},
        {"if": {"required": ["a"]}, "then": {"required": ["c"]}, "else": {"maxProperties": 2}},
    ),
    "only two booleans": ({"type": "boolean"}, {"enum": [False, None, True]}),
}


@pytest.mark.parametrize("name", PROVEN)
def test_that_all_are_accepted_is_seen_through_other_words(name: str) -> None:
    assert compare_schemas(*PROVEN[name]).verdict == "wider"


def test_recursive_schemas_are_compared_to_their_end() -> None:
    def tree(value: dict[str, Any]) -> dict[str, Any]:
        return members(value=value, children={"type": "array", "items": {"$ref": "#"}})

    assert compare_schemas(tree(WHOLE), tree({"type": "number"})).verdict == "wider"
    assert compare_schemas(tree({"type": "number"}), tree(WHOLE)).verdict == "narrower"


def test_a_recursive_schema_that_is_unrolled_once_accepts_the_same() -> None:
    node: dict[str, Any] = members(child={"$ref": "#/definitions/node"})
    rolled = {**node, "definitions": {"node": node}}
    unrolled = {**members(child=node), "definitions": {"node": node}}

    assert compare_schemas(rolled, unrolled).verdict == "same"


@pytest.mark.parametrize("keyword", ["allOf", "anyOf", "items", "not"])
def test_long_ways_from_definition_to_definition_are_borne(keyword: str) -> None:
    def chain(end: dict[str, Any]) -> dict[str, Any]:
        names = [f"d{number}" for number in range(200)]
        inside = [{"$ref": f"#/definitions/{name}"} for name in names[1:]]
        holders = [{keyword: [part] if keyword.endswith("Of") else part} for part in inside]
        return {"$ref": "#/definitions/d0", "definitions": dict(zip(names, [*holders, end], strict=True))}

    assert compare_schemas(chain(TEXT), chain(TEXT)).verdict == "same"
    assert compare_schemas(chain(TEXT), chain(NULL)).verdict in {"narrower", "unclear"}


def test_a_schema_that_is_none_is_refused() -> None:
    with pytest.raises(InvalidSchema):
        compare_schemas(TEXT, {"type": "objekt"})


NAMES = st.sampled_from(["a", "b", "ab"])
SCALARS = st.none() | st.booleans() | st.integers(-2, 3) | st.sampled_from([0.5, 1.0, "", "a", "ab"])
VALUES = st.recursive(
    SCALARS, lambda inside: st.lists(inside, max_size=3) | st.dictionaries(NAMES, inside, max_size=3), max_leaves=6
)
TYPES = st.sampled_from(["array", "boolean", "integer", "null", "number", "object", "string"])
LEAVES = st.booleans() | TYPES.map(lambda name: {"type": name}) | st.just({"$ref": "#/definitions/shared"})


def some_keywords(inside: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    few = st.lists(inside, min_size=1, max_size=2)
    keywords: dict[str, st.SearchStrategy[Any]] = {
        "additionalItems": inside,
        "additionalProperties": inside,
        "allOf": few,
        "anyOf": few,
        "const": SCALARS,
        "contains": inside,
        "dependencies": st.dictionaries(NAMES, inside | st.lists(NAMES, max_size=2, unique=True), max_size=1),
        "else": inside,
        "enum": st.lists(SCALARS | VALUES, min_size=1, max_size=2),
        "exclusiveMaximum": st.sampled_from([1, 2.5]),
        "exclusiveMinimum": st.sampled_from([0, 0.5]),
        "if": inside,
        "items": inside | few,
        "maxItems": st.integers(0, 2),
        "maxLength": st.integers(0, 2),
        "maxProperties": st.integers(0, 2),
        "maximum": st.sampled_from([0, 1.5]),
        "minItems": st.integers(0, 2),
        "minLength": st.integers(0, 2),
        "minProperties": st.integers(0, 2),
        "minimum": st.sampled_from([0, 0.5, 1]),
        "multipleOf": st.sampled_from([0.5, 1, 2]),
        "not": inside,
        "oneOf": few,
        "pattern": st.sampled_from(["a", "b$"]),
        "patternProperties": st.dictionaries(st.sampled_from(["a", "b$"]), inside, max_size=2),
        "properties": st.dictionaries(NAMES, inside, max_size=2),
        "propertyNames": inside,
        "required": st.lists(NAMES, max_size=2, unique=True),
        "then": inside,
        "type": TYPES | st.lists(TYPES, unique=True, min_size=1, max_size=2),
        "uniqueItems": st.booleans(),
    }
    chosen = st.lists(st.sampled_from(sorted(keywords)), min_size=1, max_size=3, unique=True)
    return chosen.flatmap(lambda names: st.fixed_dictionaries({name: keywords[name] for name in names}))


SCHEMAS = st.recursive(LEAVES, some_keywords, max_leaves=6)


def edited(schema: Any, chance: random.Random) -> Any:
    """Return a copy in which something somewhere was left out, put in or put into an `anyOf`."""
    copy = json.loads(json.dumps(schema))
    places: list[Any] = [copy]
    for place in places:
        places += [
            part for part in (place.values() if isinstance(place, dict) else place) if isinstance(part, dict | list)
        ]
    place = chance.choice(places)
    if isinstance(place, list):
        chance.shuffle(place)
    elif place:
        keyword = chance.choice(sorted(place))
        if isinstance(place[keyword], dict) and chance.random() < 0.5:
            place[keyword] = {"anyOf": [place[keyword], {"type": "null"}]}
        else:
            del place[keyword]
    return copy


@settings(max_examples=300, deadline=None)
@given(st.lists(SCHEMAS, min_size=3, max_size=3), st.lists(VALUES, max_size=40), st.randoms(use_true_random=False))
def test_whatever_is_called_wider_accepts_all_that_was_accepted(
    schemas: list[Any], values: list[Any], chance: random.Random
) -> None:
    first, shared, other = schemas
    old: dict[str, Any] = {"allOf": [first], "definitions": {"shared": shared}}
    new = chance.choice([edited(old, chance), {**old, "allOf": [other]}])
    try:
        comparison = compare_schemas(old, new)
    except InvalidSchema:
        return
    effects = {difference.effect for difference in comparison.differences}

    if comparison.verdict in {"same", "wider"}:
        assert [value for value in values if is_valid(value, old) and not is_valid(value, new)] == []
        assert effects.isdisjoint({"narrower", "unclear"})
    if comparison.verdict == "same":
        assert [value for value in values if is_valid(value, new) and not is_valid(value, old)] == []
