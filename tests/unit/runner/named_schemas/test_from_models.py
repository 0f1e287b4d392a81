"""Schemas of pydantic models: that they are Draft-7, say what the model says, and how others are refused."""

import contextlib
import io
import sys
from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import IntEnum, StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal, Optional
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, RootModel

from ao_protocol.contracts import check_schema, validate
from ao_protocol.wire import JsonObject
from ao_runner.named_schemas.from_models import ModelUnusable, schema_of_model, to_draft_7
from ao_runner.named_schemas.vetting import UnacceptableSchema

TEXT: JsonObject = {"type": "string"}
WHOLE: JsonObject = {"type": "integer"}

TRANSLATED: dict[str, tuple[JsonObject, JsonObject]] = {
    "definitions": (
        {"properties": {"a": {"$ref": "#/$defs/A"}}, "$defs": {"A": TEXT}},
        {"properties": {"a": {"$ref": "#/definitions/A"}}, "definitions": {"A": TEXT}},
    ),
    "a tuple": (
        {"type": "array", "prefixItems": [TEXT, WHOLE], "minItems": 2, "maxItems": 2},
        {"type": "array", "items": [TEXT, WHOLE], "additionalItems": False, "minItems": 2, "maxItems": 2},
    ),
    "a tuple with more behind it": (
        {"prefixItems": [TEXT], "items": WHOLE},
        {"items": [TEXT], "additionalItems": WHOLE},
    ),
    "a beginning": ({"prefixItems": [TEXT]}, {"items": [TEXT]}),
    "a reference with something beside it": (
        {"properties": {"a": {"$ref": "#/$defs/A", "description": "x", "default": 1}}, "$defs": {"A": WHOLE}},
        {
            "properties": {"a": {"allOf": [{"$ref": "#/definitions/A"}], "description": "x", "default": 1}},
            "definitions": {"A": WHOLE},
        },
    ),
    "a union told apart": (
        {"oneOf": [{"$ref": "#/$defs/A"}], "discriminator": {"propertyName": "k"}, "$defs": {"A": TEXT}},
        {"oneOf": [{"$ref": "#/definitions/A"}], "definitions": {"A": TEXT}},
    ),
    "a recursive model": (
        {"$ref": "#/$defs/Node", "$defs": {"Node": {"properties": {"next": {"$ref": "#/$defs/Node"}}}, "A": TEXT}},
        {
            "properties": {"next": {"$ref": "#/definitions/Node"}},
            "definitions": {"Node": {"properties": {"next": {"$ref": "#/definitions/Node"}}}, "A": TEXT},
        },
    ),
    "what only looks like a keyword": (
        {
            "properties": {"$ref": TEXT, "prefixItems": WHOLE, "$defs": TEXT, "discriminator": TEXT},
            "default": {"$ref": "#/$defs/A", "prefixItems": [1]},
            "enum": [{"$defs": {}}],
        },
        {
            "properties": {"$ref": TEXT, "prefixItems": WHOLE, "$defs": TEXT, "discriminator": TEXT},
            "default": {"$ref": "#/$defs/A", "prefixItems": [1]},
            "enum": [{"$defs": {}}],
        },
    ),
}


@pytest.mark.parametrize("name", TRANSLATED)
def test_what_draft_7_says_otherwise_is_said_in_draft_7(name: str) -> None:
    written, expected = TRANSLATED[name]

    assert to_draft_7(written) == expected


class Severity(StrEnum):
    LOW = "low"
    HIGH = "high"


class Level(IntEnum):
    ONE = 1
    TWO = 2


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: int = Field(9, ge=0, lt=10)


class Dog(BaseModel):
    kind: Literal["dog"]
    name: Annotated[str, Field(min_length=1, max_length=5, pattern="^[a-z]*$")]


class Node(BaseModel):
    value: int
    children: list["Node"] = []
    parent: Optional["Node"] = None


class Everything(BaseModel):
    model_config = ConfigDict(extra="forbid")

    severity: Severity = Field(Severity.LOW, description="How bad it is")
    level: Level | None
    pet: Annotated[Cat | Dog, Field(discriminator="kind")]
    node: Node = Field(description="A tree")
    pair: tuple[int, str]
    nothing: tuple[()]
    many: tuple[bool, ...]
    counts: dict[str, Annotated[int, Field(gt=0)]]
    by_number: dict[int, Severity]
    either: int | str | None
    maybe: str | None = None
    price: Annotated[Decimal, Field(ge=0, max_digits=6, decimal_places=2)]
    share: Annotated[float, Field(gt=0, le=1)]
    even: Annotated[int, Field(multiple_of=2)]
    at: AwareDatetime  # RFC 3339 has no time without an offset
    on: date
    around: time
    lasted: timedelta
    uuid: UUID
    labels: set[str] = Field(max_length=3)
    anything: Any = None


class Matrix(RootModel[list[list[float]]]):
    """Rows of numbers."""


NODES = st.recursive(
    st.builds(Node, value=st.integers(-9, 9), children=st.just([]), parent=st.none()),
    lambda inside: st.builds(
        Node, value=st.integers(-9, 9), children=st.lists(inside, max_size=2), parent=st.none() | inside
    ),
    max_leaves=4,
)
PETS = st.builds(Cat, kind=st.just("cat"), lives=st.integers(0, 9)) | st.builds(
    Dog, kind=st.just("dog"), name=st.text("abc", min_size=1, max_size=5)
)
EVERYTHING = st.builds(
    Everything,
    pet=PETS,
    node=NODES,
    nothing=st.just(()),
    counts=st.dictionaries(st.text(max_size=3), st.integers(1, 9), max_size=2),
    by_number=st.dictionaries(st.integers(0, 9), st.sampled_from(Severity), max_size=2),
    either=st.none() | st.integers(-9, 9) | st.text(max_size=3),
    pair=st.tuples(st.integers(-9, 9), st.text(max_size=3)),
    price=st.decimals(0, 999, places=2),
    share=st.floats(0, 1, exclude_min=True),
    even=st.integers(-9, 9).map(lambda number: 2 * number),
    lasted=st.timedeltas(timedelta(0), timedelta(9)),
    labels=st.sets(st.text(max_size=2), max_size=3),
    at=st.datetimes(timezones=st.just(UTC)),
    around=st.times(timezones=st.just(UTC)),
    anything=st.none() | st.integers(0, 9) | st.lists(st.text(max_size=2), max_size=2),
)


@given(value=EVERYTHING | NODES | st.builds(Matrix, st.lists(st.lists(st.floats(-9, 9), max_size=2), max_size=2)))
def test_what_a_model_writes_fits_its_schema(value: BaseModel) -> None:
    schema = to_draft_7(type(value).model_json_schema())

    assert validate(value.model_dump(mode="json"), schema) == []


WRONG: dict[str, Any] = {
    "severity": "worst",
    "level": 3,
    "pet": {"kind": "cat", "lives": 10},
    "node": {"value": 1, "children": [{"value": "x"}]},
    "pair": [1, "a", 2],
    "nothing": [1],
    "counts": {"a": 0},
    "either": [],
    "share": 0,
    "even": 3,
    "labels": ["a", "a"],
    "unknown": 1,
}


@pytest.mark.parametrize("field", WRONG)
def test_what_a_model_refuses_its_schema_refuses(field: str) -> None:
    schema = to_draft_7(Everything.model_json_schema())
    good = Everything(
        level=None,
        pet=Cat(kind="cat"),
        node=Node(value=1),
        pair=(1, "a"),
        nothing=(),
        many=(),
        counts={},
        by_number={},
        either=None,
        price=Decimal(1),
        share=0.5,
        even=2,
        at=datetime(2026, 1, 1, tzinfo=UTC),
        on=date(2026, 1, 1),
        around=time(1, tzinfo=UTC),
        lasted=timedelta(1),
        uuid=UUID(int=1),
        labels=set(),
    ).model_dump(mode="json")

    assert validate(good, schema) == []
    assert validate({**good, field: WRONG[field]}, schema) != []


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """Return a folder for modules, which are forgotten afterwards."""
    known = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - known:
        del sys.modules[name]


def write(folder: Path, text: str, name: str = "its_models") -> None:
    (folder / f"{name}.py").write_text(f"from pydantic import BaseModel, Field\n{text}", encoding="utf-8")


def test_a_model_is_found_by_module_and_name(folder: Path) -> None:
    write(folder, "class Outer(BaseModel):\n    class Inner(BaseModel):\n        some_count: int\n")

    schema, remarks = schema_of_model("its_models:Outer.Inner", folder)

    assert schema == {
        "type": "object",
        "title": "Inner",
        "properties": {"some_count": {"type": "integer"}},
        "required": ["some_count"],
    }
    assert remarks == []
    check_schema(schema)


def test_importing_leaves_no_trace(folder: Path) -> None:
    write(folder, "print('hello')\nclass A(BaseModel):\n    pass\n")
    path, printed = list(sys.path), io.StringIO()

    with contextlib.redirect_stdout(printed):
        schema_of_model("its_models:A", folder)

    assert printed.getvalue() == ""
    assert sys.path == path
    assert [file.name for file in folder.iterdir()] == ["its_models.py"]


def test_what_pydantic_remarks_is_handed_on(folder: Path) -> None:
    write(folder, "class A(BaseModel):\n    f: int = Field(default=object())\n")

    _, remarks = schema_of_model("its_models:A", folder)

    assert len(remarks) == 1
    assert "not JSON serializable" in remarks[0]


UNUSABLE = {
    "no colon": ("its_models", "write it as module:Model"),
    "a path": ("its/models:A", "write it as module:Model"),
    "no module": ("nowhere:A", r"no module 'nowhere' in .*; name its folder with --path"),
    "another name": ("its_models:X", "its_models has no X; its models are Review, Odd"),
    "no model there": ("json:X", "json has no X; no pydantic model is there"),
    "a class": ("its_models:Plain", "<class 'its_models.Plain'> is no pydantic model: derive one from pydantic.Base"),
    "a value": ("its_models:number", "1 is no pydantic model"),
    "no schema": ("its_models:Odd", "pydantic makes no schema of it: Cannot generate a JsonSchema"),
    "an error": ("raises:A", r"its code raised ValueError: two lines at .*raises\.py:2; .* importable"),
    "an exit": ("exits:A", r"its code raised SystemExit: 3 at .*exits\.py:2"),
    "a syntax error": ("unfinished:A", r"its code raised SyntaxError: .*unfinished\.py"),
    "something not installed": ("needs:A", "no module 'nowhere' in .* or install it beside ao"),
}


@pytest.mark.parametrize("name", UNUSABLE)
def test_what_is_no_model_is_refused_with_what_to_do(name: str, folder: Path) -> None:
    reference, words = UNUSABLE[name]
    write(
        folder,
        "from collections.abc import Callable\nnumber = 1\nclass Plain: pass\n"
        "class Review(BaseModel): pass\nclass Odd(BaseModel):\n    f: Callable[[], int]\n",
    )
    write(folder, "raise ValueError('two\\nlines')", "raises")
    write(folder, "raise SystemExit(3)", "exits")
    write(folder, "x = (", "unfinished")
    write(folder, "import nowhere", "needs")

    with pytest.raises(ModelUnusable, match=f"^{reference}: {words}"):
        schema_of_model(reference, folder)


def test_what_draft_7_cannot_say_is_refused_with_its_place(folder: Path) -> None:
    write(folder, "class A(BaseModel):\n    f: str = Field(json_schema_extra={'dependentRequired': {'a': ['b']}})\n")

    with pytest.raises(
        UnacceptableSchema,
        match=r"(?s)the schema of its_models:A cannot be used as an output schema.*\$\.properties\.f\.dependent",
    ):
        schema_of_model("its_models:A", folder)
