"""Pydantic models of schemas: that they say what the schema says, whatever stands in it."""

import json
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError

from ao_protocol.output import is_valid
from ao_protocol.wire import JsonObject
from ao_runner.named_schemas.from_models import to_draft_7
from ao_runner.named_schemas.model_gaps import gaps_in_model
from ao_runner.named_schemas.model_source import NotOnlyDeclarations, check_model_source
from ao_runner.named_schemas.registry import UnacceptableSchema
from ao_runner.named_schemas.to_models import (
    BadClassName,
    GeneratorMissing,
    NoModelPossible,
    class_name_for,
    source_of_model,
)

REVIEW: dict[str, Any] = {
    "type": "object",
    "description": "What a reviewer answers",
    "required": ["summary", "issues"],
    "additionalProperties": False,
    "properties": {
        "summary": {"type": "string", "minLength": 1, "description": "In one sentence"},
        "score": {"type": ["integer", "null"], "minimum": 0},
        "issues": {"type": "array", "items": {"$ref": "#/definitions/issue"}, "minItems": 1},
    },
    "definitions": {
        "issue": {
            "type": "object",
            "required": ["file"],
            "properties": {
                "file": {"type": "string", "pattern": "^[a-z./]+$"},
                "severity": {"enum": ["low", "high"]},
                "span": {
                    "type": "array",
                    "items": [{"type": "string"}, {"type": "integer"}],
                    "additionalItems": False,
                    "minItems": 2,
                },
                "causes": {"type": "array", "items": {"$ref": "#/definitions/issue"}},
            },
        }
    },
}

SOURCE = '''\
"""Written by `ao schema to-model`: to change it, change the schema."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field


class Issue(BaseModel):
    file: Annotated[str, Field(pattern="^[a-z./]+$")]
    severity: Literal["low", "high"] | None = None
    span: tuple[str, int] | None = None
    causes: list[Issue] | None = None


class Review(BaseModel):
    """
    What a reviewer answers
    """

    model_config = ConfigDict(
        extra="forbid",
    )
    summary: Annotated[str, Field(description="In one sentence", min_length=1)]
    score: Annotated[int | None, Field(ge=0)] = None
    issues: Annotated[list[Issue], Field(min_length=1)]


Issue.model_rebuild()
'''


@contextmanager
def imported(source: str) -> Iterator[ModuleType]:
    """Import source as a module of its own: only a test does that."""
    module = ModuleType("written_by_a_test")
    sys.modules[module.__name__] = module
    try:
        exec(compile(source, module.__name__, "exec"), module.__dict__)  # noqa: S102
        yield module
    finally:
        del sys.modules[module.__name__]


def schema_again(source: str, name: str) -> dict[str, Any]:
    with imported(source) as module:
        model: type[BaseModel] = getattr(module, name)
        return to_draft_7(model.model_json_schema())


def test_a_model_is_python_that_people_can_read() -> None:
    assert source_of_model("review.json", REVIEW, "Review") == (SOURCE, [])


GOOD: list[Any] = [
    {"summary": "a", "issues": [{"file": "a/b.py"}]},
    {"summary": "a", "score": None, "issues": [{"file": "a", "severity": "low", "causes": [{"file": "b"}]}]},
    {"summary": "a", "score": 0, "issues": [{"file": "a", "span": ["a", 2], "more": True}]},
]
BAD: list[Any] = [
    None,
    {},
    {"summary": "", "issues": [{"file": "a"}]},
    {"summary": "a", "issues": []},
    {"summary": "a", "issues": [{"file": "A"}]},
    {"summary": "a", "issues": [{"file": "a", "severity": "worst"}]},
    {"summary": "a", "issues": [{"file": "a", "span": ["a", 2, 3]}]},
    {"summary": "a", "issues": [{"file": "a", "span": ["a", "b"]}]},
    {"summary": "a", "issues": [{"file": "a", "causes": [{}]}]},
    {"summary": "a", "score": -1, "issues": [{"file": "a"}]},
    {"summary": "a", "issues": [{"file": "a"}], "more": True},
]


@pytest.mark.parametrize("value", [*GOOD, *BAD], ids=json.dumps)
def test_a_schema_its_model_and_the_schema_of_that_accept_the_same(value: Any) -> None:
    source, _ = source_of_model("review.json", REVIEW, "Review")
    with imported(source) as module:
        try:
            module.Review.model_validate_json(json.dumps(value))
            is_accepted = True
        except ValidationError:
            is_accepted = False

    assert is_accepted is is_valid(value, REVIEW) is is_valid(value, schema_again(source, "Review"))


PROPERTIES = st.sampled_from(["a", "b c", "class", "list", "Answer"])
LEAVES: st.SearchStrategy[dict[str, Any]] = st.one_of(
    st.fixed_dictionaries({"type": st.just("string")}, optional={"minLength": st.integers(0, 2)}),
    st.fixed_dictionaries({"type": st.just("string")}, optional={"pattern": st.sampled_from(["^a", "b"])}),
    st.fixed_dictionaries({"type": st.just("integer")}, optional={"minimum": st.integers(-2, 1)}),
    st.fixed_dictionaries({"type": st.just("number")}, optional={"exclusiveMaximum": st.integers(2, 4)}),
    st.sampled_from([{"type": "boolean"}, {"type": "null"}, {"type": ["string", "null"]}, {"const": "x"}, {}]),
    st.just({"enum": ["x", 1, None]}),
    st.just({"$ref": "#/definitions/shared"}),
)


def containers(inside: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    tuples = st.lists(inside, min_size=1, max_size=3)
    return st.one_of(
        st.dictionaries(PROPERTIES, inside, min_size=1, max_size=3).map(
            lambda members: {"type": "object", "properties": members, "required": sorted(members)}
        ),
        inside.map(lambda items: {"type": "array", "items": items, "maxItems": 2}),
        inside.map(lambda values: {"type": "object", "additionalProperties": values}),
        inside.map(lambda only: {"allOf": [only], "description": "d"}),
        st.lists(inside, min_size=1, max_size=2).map(lambda parts: {"anyOf": parts}),
        tuples.map(lambda items: {"type": "array", "items": items, "additionalItems": False, "minItems": len(items)}),
    )


SCALARS = st.none() | st.booleans() | st.integers(-3, 4) | st.sampled_from([0.5, "", "a", "ab", "x"])
VALUES = st.recursive(
    SCALARS, lambda inside: st.lists(inside, max_size=3) | st.dictionaries(PROPERTIES, inside, max_size=3), max_leaves=6
)


@settings(max_examples=60, deadline=None)
@given(st.recursive(LEAVES, containers, max_leaves=6), LEAVES, st.lists(VALUES, max_size=30))
def test_a_model_refuses_nothing_that_its_schema_accepts(
    part: dict[str, Any], shared: dict[str, Any], values: list[Any]
) -> None:
    schema: dict[str, Any] = {"allOf": [part], "definitions": {"shared": shared}}
    try:
        source, _ = source_of_model("a schema", schema, "Answer")
    except UnacceptableSchema:
        return
    again = schema_again(source, "Answer")

    assert [value for value in values if is_valid(value, schema) and not is_valid(value, again)] == []


HOSTILE = [
    '"""\nimport os\nos.system("echo PWNED")\n"""',
    "x'\nprint('PWNED')#",
    '\\"""+print("PWNED")+"""',
    "a\rprint('PWNED')",
    "{{ 7 * 7 }}{% for x in y %}",
    "__class__",
    "__init__",
    "__annotations__",
    "__pydantic_extra__",
    "__get_pydantic_core_schema__",
    "model_config",
    "model_fields",
    "copy",
    "class",
    "None",
    "1a",
    "",
    "_private",
    "BaseModel",
    "Field",
    "Annotated",
    "Literal",
    "Any",
    "list",
    "str",
    "date",
    "Answer",
    "a.b.c",
    "a/b~c%d",
    "\x00\x1b[31m\x9b",
    "\u2028print(1)",
    "\u202eABC",
    "\\",
    "é ü 😀",
]


def hostile_schemas(text: str) -> dict[str, dict[str, Any]]:
    pointer = quote(text.replace("~", "~0").replace("/", "~1"))
    whole = {"type": "object", "properties": {"x": {"type": "string"}}}
    return {
        "a property": {"type": "object", "properties": {text: {"type": "string"}, "o": {"type": "array"}}},
        "a required object": {"type": "object", "properties": {text: whole}, "required": [text]},
        "titles and descriptions": {
            **whole,
            "title": text,
            "description": text,
            "properties": {"a": {**whole, "title": text, "description": text}},
        },
        "values": {
            "type": "object",
            "properties": {
                "a": {"enum": [text, "b"]},
                "c": {"const": text},
                "d": {"type": "string", "default": text},
                "e": {"default": {text: [text]}},
                "f": {"enum": [{text: text}]},
            },
        },
        "a definition": {
            "type": "object",
            "properties": {"a": {"$ref": f"#/definitions/{pointer}"}},
            "definitions": {text: whole},
        },
        "a format": {"type": "string", "format": text},
        "other keywords": {**whole, text: text, "$comment": text, "examples": [text]},
    }


@pytest.mark.parametrize("what", hostile_schemas("x"))
@pytest.mark.parametrize("text", HOSTILE, ids=ascii)
def test_whatever_a_schema_holds_its_model_can_be_imported(
    text: str, what: str, capfd: pytest.CaptureFixture[str]
) -> None:
    source, _ = source_of_model("a schema", hostile_schemas(text)[what], "Answer")

    with imported(source) as module:
        assert issubclass(module.Answer, BaseModel)
    assert capfd.readouterr() == ("", "")
    assert source.replace("\n", "").isprintable()


EXTENSIONS: dict[str, Any] = {
    "customBasePath": "os.system",
    "customTypePath": "os.path.join",
    "default_factory": "print",
    "x-python-type": "__import__('os').system('echo PWNED')",
    "x-python-import": {"module": "os", "name": "system"},
    "x-enum-varnames": ["a = print('PWNED')"],
    "discriminator": {"propertyName": "x'\nprint(1)"},
    "nullable": True,
}


@pytest.mark.parametrize("keyword", EXTENSIONS)
def test_keywords_of_the_generator_are_not_read(keyword: str) -> None:
    plain: JsonObject = {
        "type": "object",
        "properties": {"a": {"enum": ["b"]}, "c": {"type": "object", "properties": {"d": {}}}},
    }
    extended = json.loads(json.dumps(plain), object_hook=lambda found: {**found, keyword: EXTENSIONS[keyword]})
    extended["properties"].pop(keyword)
    extended["properties"]["c"]["properties"].pop(keyword)

    assert source_of_model("a schema", extended, "Answer") == source_of_model("a schema", plain, "Answer")


@pytest.mark.parametrize(
    ("schema", "kept"),
    [
        pytest.param({"pattern": "(?=a)b", "type": "string"}, 'pattern="(?=a)b"', id="a pattern that looks ahead"),
        pytest.param({"pattern": "\\p{L}", "type": "string"}, "RootModel[str]", id="a pattern that Python has not"),
        pytest.param({"format": "email", "type": "string"}, "RootModel[str]", id="a format that needs a package"),
        pytest.param({"format": "date-time", "type": "string"}, "RootModel[datetime]", id="a time"),
        pytest.param({"$ref": "#/definitions/a", "minimum": 1, "definitions": {"a": {}}}, "RootModel[A]", id="ignored"),
    ],
)
def test_what_pydantic_has_no_word_for_is_left_out(schema: dict[str, Any], kept: str) -> None:
    source, _ = source_of_model("a schema", schema, "Answer")

    assert kept in source
    with imported(source):
        pass


def test_what_the_model_leaves_out_is_told_with_its_place() -> None:
    schema: dict[str, Any] = {
        "type": "object",
        "minProperties": 1,
        "properties": {
            "a": {"not": {"type": "string"}},
            "b": {"type": "array", "uniqueItems": True, "contains": {"const": 1}},
            "c": {"type": "array", "items": [{"type": "string"}]},
            "d": {"enum": [1.5]},
            "e": {"pattern": "\\p{L}"},
            "f": {"allOf": [{"anyOf": [{"minimum": 1}]}, {"type": "integer"}]},
            "g": {"allOf": [{"type": "object"}, {"properties": {"h": {}}}]},
            "not": {"const": "x"},
        },
    }

    assert list(gaps_in_model(schema)) == [
        "$.minProperties is not in the model",
        "$.properties.a.not is not in the model",
        "$.properties.b.contains is not in the model",
        "$.properties.b.uniqueItems is not in the model",
        "$.properties.c.items is not in this order in the model; beside 'additionalItems': false it would be",
        "$.properties.d.enum is not exactly in the model: it holds other than texts and whole numbers",
        "$.properties.e.pattern is not in the model, since Python cannot match it",
        "$.properties.f.allOf is not exactly in the model: it holds other than objects",
    ]
    assert set(gaps_in_model(schema)) <= set(source_of_model("a schema", schema, "Answer")[1])


def test_a_definition_called_like_the_model_gives_way() -> None:
    inner: JsonObject = {"type": "object", "properties": {"file": {"type": "string"}}}
    schema: JsonObject = {
        "type": "object",
        "properties": {"a": {"$ref": "#/definitions/review"}, "b": {"$ref": "#/definitions/review/properties/file"}},
        "definitions": {"review": inner},
    }

    source, _ = source_of_model("a schema", schema, "Review")

    with imported(source) as module:
        assert list(module.Review.model_fields) == ["a", "b"]


@pytest.mark.parametrize("name", ["9a", "class", "a b", "_A", "lower", "BaseModel", "Field", "Annotated", "", "A\nB"])
def test_a_name_that_is_none_for_a_class_is_refused(name: str) -> None:
    with pytest.raises(BadClassName, match="choose one such as 'Review' with --class-name"):
        source_of_model("a schema", {"type": "object", "properties": {"a": {"type": "integer", "minimum": 1}}}, name)


@pytest.mark.parametrize(
    ("called", "title", "name"),
    [
        ("code-review", None, "CodeReview"),
        ("review", "Code review", "CodeReview"),
        ("review", "x'\nimport os#", "Review"),
        ("2nd_draft", None, "Answer2ndDraft"),
        ("any", None, "AnswerAny"),
        ("class", None, "Class"),
        ("", None, "Answer"),
    ],
)
def test_a_model_is_called_after_its_title_or_its_file(called: str, title: str | None, name: str) -> None:
    assert class_name_for(called, {} if title is None else {"title": title}) == name


def test_a_schema_that_is_none_is_refused() -> None:
    with pytest.raises(UnacceptableSchema, match=r"(?s)bad\.json cannot be used as an output schema.*\$\.type: "):
        source_of_model("bad.json", {"type": "objekt"}, "Answer")


def test_what_no_model_can_say_is_refused() -> None:
    with pytest.raises(NoModelPossible, match=r"no model can be written of a\.json: .*false"):
        source_of_model("a.json", {"anyOf": [False]}, "Answer")


def test_without_the_extra_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "datamodel_code_generator", None)

    with pytest.raises(GeneratorMissing, match=r"pip install 'ao-executor-protocol\[models\]'"):
        source_of_model("a.json", {}, "Answer")


def test_nothing_is_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    source_of_model("review.json", REVIEW, "Review")

    assert list(tmp_path.iterdir()) == []


def test_the_settings_of_the_folder_are_none_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool.black]\nline-length = 20\n[tool.ruff\n")
    monkeypatch.chdir(tmp_path)

    assert source_of_model("review.json", REVIEW, "Review")[0] == SOURCE


MORE_THAN_DECLARATIONS = {
    "an import of something else": "import os",
    "a name of something else": "from os import system",
    "everything of a module": "from pydantic import *",
    "a name that imports": "from pydantic import ImportString",
    "a relative import": "from . import x",
    "a call": "print(1)",
    "a call for a default": "class A:\n    a: int = print(1)",
    "a call in an annotation": "class A:\n    a: print(1)",
    "a text that is evaluated": "class A:\n    a: list['print(1)']",
    "a call for a base": "class A(print(1)):\n    pass",
    "a metaclass": "class A(metaclass=print):\n    pass",
    "a decorator": "@print\nclass A:\n    pass",
    "a method": "class A:\n    def f(self): ...",
    "an attribute": "class A:\n    a: int = str.join",
    "a lambda": "from pydantic import Field\nclass A:\n    a: int = Field(default_factory=lambda: 1)",
    "an unpacked call": "from pydantic import Field\nclass A:\n    a: int = Field(**{'default': 1})",
    "a formatted text": "class A:\n    a: str = f'{print(1)}'",
    "a dunder": "class A:\n    __slots__ = ()",
    "a private field": "class A:\n    _a: int",
    "a field twice": "class A:\n    a: int\n    a: str",
    "a class twice": "class A:\n    pass\nclass A:\n    pass",
    "an unknown name": "class A:\n    a: B",
    "a base from below": "class A(B):\n    pass\nclass B:\n    pass",
    "a text beside a type": "class A:\n    a: 'A' | None",
    "a field that hides a type": "class A:\n    int: int = 1",
    "a bound of a time": "from datetime import time\nfrom typing import Annotated\nfrom pydantic import Field\n"
    "class A:\n    a: Annotated[time, Field(ge=1)]",
    "a pattern": "from pydantic import Field\nclass A:\n    a: str = Field(pattern='(a)\\\\1')",
    "characters that cannot be seen": "class A:\n    '''\u202e'''",
    "no Python": "class A(",
    "a condition": "if True:\n    pass",
    "a deletion": "del A",
}


@pytest.mark.parametrize("name", MORE_THAN_DECLARATIONS)
def test_source_that_does_more_than_declare_is_refused(name: str) -> None:
    with pytest.raises(NotOnlyDeclarations, match=r"^line [0-9]+: "):
        check_model_source(MORE_THAN_DECLARATIONS[name])


def test_source_of_declarations_is_accepted() -> None:
    assert check_model_source(SOURCE) == {"Issue", "Review"}
