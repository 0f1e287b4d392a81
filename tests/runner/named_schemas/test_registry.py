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
    Refusal,
    SchemaInUse,
    SchemaNotFound,
    SchemaRegistry,
    UnacceptableSchema,
    judge_name,
)
from ao_runner.store.records import Run, Session
from ao_runner.store.rows import NamedSchema
from ao_runner.store.store import Store

TEXT: JsonObject = {"type": "string"}
NUMBER: JsonObject = {"type": "number"}


def kept(*, used_by_runs: int = 0, is_deleted: bool = False) -> NamedSchema:
    return NamedSchema("a", "", TEXT, "then", used_by_runs, is_deleted)


@pytest.mark.parametrize(
    ("there", "schema", "replace", "verdict"),
    [
        pytest.param(None, TEXT, False, Outcome.ADDED, id="a new name"),
        pytest.param(kept(), TEXT, False, Outcome.UNCHANGED, id="the same"),
        pytest.param(kept(used_by_runs=1), TEXT, False, Outcome.UNCHANGED, id="the same, used"),
        pytest.param(kept(used_by_runs=1, is_deleted=True), TEXT, False, Outcome.RESTORED, id="the same, deleted"),
        pytest.param(kept(), NUMBER, False, Refusal.NOT_USED_YET, id="another"),
        pytest.param(kept(), NUMBER, True, Outcome.REPLACED, id="another, to be replaced"),
        pytest.param(kept(used_by_runs=1), NUMBER, True, Refusal.USED, id="another, used"),
        pytest.param(kept(used_by_runs=1, is_deleted=True), NUMBER, True, Refusal.DELETED, id="another, deleted"),
        pytest.param(kept(is_deleted=True), NUMBER, True, Refusal.DELETED, id="another, deleted, its runs gone"),
    ],
)
def test_a_name_goes_on_to_stand_for_what_runs_used(
    there: NamedSchema | None, schema: JsonObject, replace: bool, verdict: Outcome | Refusal
) -> None:
    assert judge_name(there, schema, replace=replace) is verdict


@pytest.mark.parametrize(
    ("one", "other", "outcome"),
    [
        pytest.param({"a": 1, "title": "x"}, {"title": "x", "a": 1}, Outcome.UNCHANGED, id="keys in another order"),
        pytest.param({"const": 1}, {"const": True}, Refusal.NOT_USED_YET, id="a number and a boolean"),
        pytest.param({"required": ["a", "b"]}, {"required": ["b", "a"]}, Refusal.NOT_USED_YET, id="a list reordered"),
    ],
)
def test_the_very_same_schema_is_the_same_json(one: JsonObject, other: JsonObject, outcome: Outcome | Refusal) -> None:
    assert judge_name(NamedSchema("a", "", one, "then"), other, replace=False) is outcome


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store(tmp_path) as store:
        yield store


@pytest.fixture
def registry(store: Store) -> SchemaRegistry:
    return SchemaRegistry(store, now=lambda: "now")


def use(store: Store, name: str, run_id: str = "run_1") -> None:
    store.add_session(Session(f"ses_{run_id}", "now", "x", "/bin/x", "/project", {"name": "agent"}))
    run = Run(run_id, f"ses_{run_id}", "start", {}, "now", contract={"source": "named", "schema_name": name})
    store.begin_run(run, "owner")


def test_a_schema_is_found_by_its_name(registry: SchemaRegistry) -> None:
    assert registry.create("review", TEXT, "What a reviewer answers") is Outcome.ADDED

    assert registry.get("review") == NamedSchema("review", "What a reviewer answers", TEXT, "now")
    assert registry.list() == [registry.get("review")]


def test_it_is_there_in_a_later_process_with_its_keys_in_their_order(tmp_path: Path) -> None:
    schema: JsonObject = {"type": "object", "properties": {"b": TEXT, "a": {"description": "Größe 😀"}}}
    with Store(tmp_path) as store:
        SchemaRegistry(store).create("review", schema)

    with Store(tmp_path) as store:
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


def test_the_same_once_more_changes_nothing(store: Store) -> None:
    SchemaRegistry(store, now=lambda: "then").create("review", TEXT, "first")

    assert SchemaRegistry(store, now=lambda: "now").create("review", TEXT) is Outcome.UNCHANGED
    assert SchemaRegistry(store).get("review") == NamedSchema("review", "first", TEXT, "then")


@pytest.mark.parametrize("description", ["second", ""])
def test_a_new_description_can_be_set_also_when_runs_used_it(
    description: str, store: Store, registry: SchemaRegistry
) -> None:
    registry.create("review", TEXT, "first")
    use(store, "review")

    assert registry.create("review", TEXT, description) is Outcome.DESCRIBED
    assert registry.get("review").description == description


def test_another_schema_takes_its_place_only_if_that_is_said(registry: SchemaRegistry) -> None:
    registry.create("review", TEXT, "first")

    with pytest.raises(NameTaken, match="no run has used it, so --replace replaces it"):
        registry.create("review", NUMBER)
    assert registry.create("review", NUMBER, replace=True) is Outcome.REPLACED
    assert registry.get("review") == NamedSchema("review", "first", NUMBER, "now")


def test_what_runs_used_stays_as_it_is(store: Store, registry: SchemaRegistry) -> None:
    registry.create("review", TEXT)
    registry.create("review-2", TEXT)
    use(store, "review", "run_1")
    use(store, "review", "run_2")

    with pytest.raises(NameTaken, match=r"2 runs used it, so it cannot be replaced: .* such as 'review-3'"):
        registry.create("review", NUMBER, replace=True)
    assert registry.get("review").schema == TEXT
    assert registry.get("review").used_by_runs == 2


def test_what_no_run_used_can_be_deleted_and_its_name_is_free(registry: SchemaRegistry) -> None:
    registry.create("review", TEXT)

    registry.delete("review")

    assert registry.list() == []
    assert registry.create("review", NUMBER) is Outcome.ADDED


def test_what_runs_used_is_deleted_only_if_that_is_said(store: Store, registry: SchemaRegistry) -> None:
    registry.create("review", TEXT)
    use(store, "review")

    with pytest.raises(SchemaInUse, match="1 run used schema 'review'; --force deletes it"):
        registry.delete("review")
    assert registry.get("review").schema == TEXT


def test_the_name_of_a_deleted_schema_is_kept_for_it(store: Store, registry: SchemaRegistry) -> None:
    registry.create("review", TEXT, "first")
    use(store, "review")
    registry.delete("review", force=True)

    assert registry.list() == []
    with pytest.raises(SchemaNotFound):
        registry.get("review")
    with pytest.raises(SchemaNotFound):
        registry.delete("review", force=True)
    with pytest.raises(NameTaken, match=r"was deleted after 1 run had used it; .* stays reserved for that schema"):
        registry.create("review", NUMBER, replace=True)
    assert registry.create("review", TEXT) is Outcome.RESTORED
    assert registry.get("review") == NamedSchema("review", "first", TEXT, "now", used_by_runs=1)


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
    with Store(home) as store:
        try:
            return SchemaRegistry(store).create("review", {"const": number})
        except NameTaken:
            return "taken"


def test_of_several_processes_that_want_a_name_at_once_one_gets_it(tmp_path: Path) -> None:
    with ProcessPoolExecutor(4, mp_context=get_context("spawn")) as pool:
        outcomes = [pool.submit(create_at_once, tmp_path, number) for number in range(4)]

        assert sorted(outcome.result(timeout=60) for outcome in outcomes) == ["added", "taken", "taken", "taken"]
