"""The registry of named schemas: literals first, then on a real store, also with several processes at once."""

from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import pytest

from ao_protocol.wire import JsonObject
from ao_runner.named_schemas.registry import (
    BadSchemaName,
    NameTaken,
    Outcome,
    SchemaInUse,
    SchemaNotFound,
    SchemaRegistry,
)
from ao_runner.named_schemas.vetting import UnacceptableSchema
from ao_runner.store.records import Run, Session
from ao_runner.store.schema_table import NamedSchema
from ao_runner.store.sqlite_store import SqliteStore

TEXT: JsonObject = {"type": "string"}
NUMBER: JsonObject = {"type": "number"}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    with SqliteStore(tmp_path) as store:
        yield store


@pytest.fixture
def registry(store: SqliteStore) -> SchemaRegistry:
    return SchemaRegistry(store, now=lambda: "now")


def use(store: SqliteStore, name: str, run_id: str = "run_1") -> None:
    store.sessions.add(Session(f"ses_{run_id}", "now", "x", "/bin/x", "/project", {"name": "agent"}))
    run = Run(run_id, f"ses_{run_id}", "start", {}, "now", contract={"source": "named", "schema_name": name})
    store.runs.begin(run, "owner")


def test_a_schema_is_found_by_its_name(registry: SchemaRegistry) -> None:
    assert registry.create("review", TEXT, "What a reviewer answers") is Outcome.ADDED

    assert registry.get("review") == NamedSchema("review", "What a reviewer answers", TEXT, "now")
    assert registry.list() == [registry.get("review")]


def test_it_is_there_in_a_later_process_with_its_keys_in_their_order(tmp_path: Path) -> None:
    schema: JsonObject = {"type": "object", "properties": {"b": TEXT, "a": {"description": "Größe 😀"}}}
    with SqliteStore(tmp_path) as store:
        SchemaRegistry(store).create("review", schema)

    with SqliteStore(tmp_path) as store:
        properties = SchemaRegistry(store).get("review").schema["properties"]

    assert isinstance(properties, dict)
    assert list(properties.items()) == [("b", TEXT), ("a", {"description": "Größe 😀"})]


@pytest.mark.parametrize("name", ["a", "9", "Review", "code-review.v1_2", "a" * 100])
def test_a_name_is_made_of_letters_digits_and_a_few_marks(name: str, registry: SchemaRegistry) -> None:
    assert registry.create(name, TEXT) is Outcome.ADDED


@pytest.mark.parametrize("name", ["", "-a", ".a", "_a", "a b", "a/b", "a\n", "ä", "a" * 101, "\udcff", "٣"])
def test_any_other_name_is_refused(name: str, registry: SchemaRegistry) -> None:
    with pytest.raises(BadSchemaName, match="choose 1 to 100 letters"):
        registry.create(name, TEXT)


def test_a_schema_that_is_none_is_refused_with_every_place(registry: SchemaRegistry) -> None:
    with pytest.raises(UnacceptableSchema) as refused:
        registry.create("review", {"properties": {"a": {"type": "objekt"}, "b": {"minLength": -1}}})

    assert "schema 'review' cannot be used as an output schema" in str(refused.value)
    assert "$.properties.a.type: " in str(refused.value)
    assert "$.properties.b.minLength: " in str(refused.value)
    assert registry.list() == []


def test_the_same_once_more_changes_nothing(store: SqliteStore) -> None:
    SchemaRegistry(store, now=lambda: "then").create("review", TEXT, "first")

    assert SchemaRegistry(store, now=lambda: "now").create("review", TEXT) is Outcome.UNCHANGED
    assert SchemaRegistry(store).get("review") == NamedSchema("review", "first", TEXT, "then")


@pytest.mark.parametrize("description", ["second", ""])
def test_a_new_description_can_be_set_also_when_runs_used_it(
    description: str, store: SqliteStore, registry: SchemaRegistry
) -> None:
    registry.create("review", TEXT, "first")
    use(store, "review")

    assert registry.create("review", TEXT, description) is Outcome.DESCRIBED
    assert registry.get("review").description == description


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param({"const": 1}, {"const": True}, id="a number and a boolean"),
        pytest.param({"required": ["a", "b"]}, {"required": ["b", "a"]}, id="a list reordered"),
    ],
)
def test_another_schema_needs_another_name(one: JsonObject, other: JsonObject, registry: SchemaRegistry) -> None:
    registry.create("review", one, "first")

    with pytest.raises(NameTaken, match=r"no run has used it, so `ao schema delete review` makes room.*'review-2'"):
        registry.create("review", other)
    assert registry.get("review") == NamedSchema("review", "first", one, "now")


def test_a_schema_is_the_same_with_its_keys_in_another_order(registry: SchemaRegistry) -> None:
    registry.create("review", {"minLength": 1, "title": "x"})

    assert registry.create("review", {"title": "x", "minLength": 1}) is Outcome.UNCHANGED


def test_what_runs_used_stays_as_it_is(store: SqliteStore, registry: SchemaRegistry) -> None:
    registry.create("review", TEXT)
    registry.create("review-2", TEXT)
    use(store, "review", "run_1")
    use(store, "review", "run_2")

    with pytest.raises(NameTaken, match=r"2 runs used it, so it cannot be replaced: .* such as 'review-3'"):
        registry.create("review", NUMBER)
    assert registry.get("review").schema == TEXT
    assert registry.get("review").used_by_runs == 2


def test_what_no_run_used_can_be_deleted_and_its_name_is_free(registry: SchemaRegistry) -> None:
    registry.create("review", TEXT)

    registry.delete("review")

    assert registry.list() == []
    assert registry.create("review", NUMBER) is Outcome.ADDED


def test_what_runs_used_is_not_deleted(store: SqliteStore, registry: SchemaRegistry) -> None:
    registry.create("review", TEXT)
    use(store, "review")

    with pytest.raises(SchemaInUse, match=r"1 run used schema 'review', .*`ao sessions delete`"):
        registry.delete("review")
    assert registry.get("review").schema == TEXT


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        ("reviev", "did you mean 'review'\\? `ao schema list`"),
        ("something-else", "there is no schema 'something-else'; `ao schema list`"),
        ("\udcff", "there is no schema '\\\\udcff'"),
    ],
)
def test_a_name_that_is_not_there_says_what_may_be_meant(wanted: str, words: str, registry: SchemaRegistry) -> None:
    registry.create("review", TEXT)

    with pytest.raises(SchemaNotFound, match=words):
        registry.get(wanted)


def create_at_once(home: Path, number: int) -> str:
    with SqliteStore(home) as store:
        try:
            return SchemaRegistry(store).create("review", {"const": number})
        except NameTaken:
            return "taken"


def test_of_several_processes_that_want_a_name_at_once_one_gets_it(tmp_path: Path) -> None:
    with ProcessPoolExecutor(4, mp_context=get_context("spawn")) as pool:
        outcomes = [pool.submit(create_at_once, tmp_path, number) for number in range(4)]

        assert sorted(outcome.result(timeout=60) for outcome in outcomes) == ["added", "taken", "taken", "taken"]
