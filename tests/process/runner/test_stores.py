"""What every engine of the store promises alike: the same tests for a file and for a database."""

import tracemalloc
from dataclasses import replace

import pytest

from ao_protocol.wire import JsonObject
from ao_runner.store.opening import StorePlace
from ao_runner.store.records import Run, RunRecord, Session
from ao_runner.store.store import Store
from ao_runner.store.store_errors import RowConflict, SessionBusy, SessionUnknown

SESSION = Session("ses_1", "2026-01-01T00:00:00Z", "x", "/bin/x", "/project", {"name": "agent"}, {"model": "m"})
RUN = Run("run_1", "ses_1", "start", {"prompt": "hi"}, "2026-01-01T00:00:00Z")


def filled(place: StorePlace) -> Store:
    """A store with a session whose first run is running."""
    store = place.open()
    store.sessions.add(SESSION)
    store.runs.begin(RUN, "owner")
    return store


def test_what_was_kept_is_there_in_a_later_process(place: StorePlace) -> None:
    with filled(place) as store:
        store.events.add("run_1", 1, [b'{"seq":1}', b'{"seq":2}'])
        store.sessions.bind("ses_1", "their-1")
        store.runs.end("run_1", "completed", "2026-01-01T00:00:01Z", None)
        store.runs.add_record(
            "run_1", RunRecord(argv=("/bin/x",), exit_code=0, seconds={"spawned": 0.1}, problems=("p",))
        )

    with place.open() as store:
        assert store.sessions.find("ses_1") == replace(SESSION, executor_session_id="their-1")
        assert store.runs.of_sessions("ses_1") == [replace(RUN, status="completed", ended_at="2026-01-01T00:00:01Z")]
        assert [event.line for event in store.events.of_session("ses_1")] == ['{"seq":1}', '{"seq":2}']
        assert store.events.last_line("run_1") == '{"seq":2}'
        assert store.runs.find_record("run_1") == RunRecord(
            argv=("/bin/x",), exit_code=0, seconds={"spawned": 0.1}, problems=("p",)
        )


def test_an_event_of_a_run_can_be_kept_only_once(place: StorePlace) -> None:
    with filled(place) as store:
        store.events.add("run_1", 1, [b"{}"])

        with pytest.raises(RowConflict):
            store.events.add("run_1", 1, [b"{}", b"{}"])

        assert len(list(store.events.of_session("ses_1"))) == 1


def test_a_session_has_one_run_at_a_time(place: StorePlace) -> None:
    with filled(place) as store:
        with pytest.raises(SessionBusy):
            store.runs.begin(replace(RUN, run_id="run_2"), "other")

        store.runs.end("run_1", "completed", "later", None)
        store.runs.begin(replace(RUN, run_id="run_2"), "other")


@pytest.mark.parametrize(
    ("other", "refused"),
    [
        pytest.param(replace(RUN, session_id="ses_2"), RowConflict, id="id"),
        pytest.param(replace(RUN, run_id="run_2", session_id="ses_3"), SessionUnknown, id="session"),
    ],
)
def test_a_run_that_is_there_and_a_session_that_is_not_are_no_busy_session(
    other: Run, refused: type[Exception], place: StorePlace
) -> None:
    with filled(place) as store:
        store.sessions.add(replace(SESSION, session_id="ses_2"))

        with pytest.raises(refused):
            store.runs.begin(other, "owner")


def test_a_session_is_kept_with_its_first_run_or_not_at_all(place: StorePlace) -> None:
    with filled(place) as store:
        begun = replace(SESSION, session_id="ses_2")

        with pytest.raises(RowConflict):
            store.runs.begin(replace(RUN, session_id="ses_2"), "owner", begun)

        assert store.sessions.all() == [SESSION]


@pytest.mark.parametrize("wanted", ["ses_a1", "ses_a", "last"])
def test_a_session_is_found_by_its_id_its_beginning_or_as_the_last(wanted: str, place: StorePlace) -> None:
    with place.open() as store:
        for session_id in ("ses_b1", "ses_a1"):
            store.sessions.add(replace(SESSION, session_id=session_id))
            store.runs.begin(replace(RUN, run_id=f"run_{session_id}", session_id=session_id), "owner")

        assert store.sessions.find(wanted).session_id == "ses_a1"


def test_the_beginning_of_several_ids_says_which_there_are(place: StorePlace) -> None:
    with place.open() as store:
        for session_id in ("ses_b1", "ses_b2"):
            store.sessions.add(replace(SESSION, session_id=session_id))

        with pytest.raises(SessionUnknown, match="is ambiguous: ses_b1, ses_b2"):
            store.sessions.find("ses_b")


def test_the_runs_of_several_sessions_are_listed_in_one_order(place: StorePlace) -> None:
    with filled(place) as store:
        for number in (2, 3):
            store.sessions.add(replace(SESSION, session_id=f"ses_{number}"))
            store.runs.begin(replace(RUN, run_id=f"run_{number}", session_id=f"ses_{number}"), "owner")
        store.runs.end("run_1", "completed", "later", None)
        store.runs.begin(replace(RUN, run_id="run_4"), "owner")

        assert [run.run_id for run in store.runs.of_sessions("ses_3", "ses_1")] == ["run_1", "run_3", "run_4"]
        assert store.runs.of_sessions() == []


def test_sessions_their_states_and_the_last_events_of_runs_are_found_together(place: StorePlace) -> None:
    with filled(place) as store:
        store.sessions.add(replace(SESSION, session_id="ses_2"))
        store.runs.begin(replace(RUN, run_id="run_2", session_id="ses_2"), "owner")
        store.runs.end("run_1", "completed", "later", None)
        store.runs.begin(replace(RUN, run_id="run_3", mode="resume"), "owner")
        store.events.add("run_1", 1, [b'{"seq":1}', b'{"seq":2}'])

        found = store.sessions.by_id(["ses_1", "ses_2", "ses_9"])
        assert found == {name: replace(SESSION, session_id=name) for name in ("ses_1", "ses_2")}
        assert [state.run.run_id for state in store.runs.states_of("ses_1", "ses_2")] == ["run_1", "run_2", "run_3"]
        assert [state.run.run_id for state in store.runs.states_of("ses_2", "ses_9")] == ["run_2"]
        assert store.events.last_lines(["run_1", "run_2", "run_9"]) == {"run_1": '{"seq":2}', "run_2": ""}
        assert store.runs.states_of() == []


def test_a_session_is_found_whatever_the_others_hold(place: StorePlace) -> None:
    with filled(place) as store:
        store.sessions.add(replace(SESSION, session_id="ses_2"))
        store.write("UPDATE sessions SET blueprint = 'damaged' WHERE session_id = 'ses_2'")

        assert store.sessions.find("last") == SESSION
        assert store.sessions.all() == [SESSION]
        assert [damaged.row_id for damaged in store.damage.values()] == ["ses_2"]


def test_the_run_that_began_a_session_is_found_whatever_the_others_hold(place: StorePlace) -> None:
    with filled(place) as store:
        store.runs.end("run_1", "completed", "later", None)
        store.runs.begin(replace(RUN, run_id="run_2", mode="resume"), "owner")
        store.write("UPDATE runs SET parameters = 'damaged' WHERE run_id = 'run_2'")

        assert store.runs.first("ses_1") == replace(RUN, status="completed", ended_at="later")


@pytest.mark.parametrize(
    ("beginning", "found"),
    [("run_1", ["run_1"]), ("run_", ["run_1", "run_12", "run_2"]), ("run%", []), ("un_1", [])],
)
def test_runs_are_found_by_the_beginning_of_their_id(beginning: str, found: list[str], place: StorePlace) -> None:
    with filled(place) as store:
        store.runs.end("run_1", "completed", "later", None)
        for run_id in ("run_12", "run_2"):
            store.queue.add(replace(replace(RUN, run_id=run_id, status="queued"), profile="x"))

        assert [state.run.run_id for state in store.runs.find(beginning)] == found


def test_events_are_read_one_row_at_a_time(place: StorePlace) -> None:
    rows, line = 200, b'"%s"' % (b"x" * 50_000)
    with filled(place) as store:
        for seq in range(1, rows + 1):
            store.events.add("run_1", seq, [line])

        tracemalloc.start()
        try:
            assert sum(1 for _ in store.events.of_session("ses_1")) == rows
            _, peak_bytes = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()

    assert peak_bytes < rows * len(line) / 10


def test_events_of_one_run_of_a_session_are_found(place: StorePlace) -> None:
    with filled(place) as store:
        store.events.add("run_1", 1, [b"1", b"2"])
        store.runs.end("run_1", "completed", "later", None)
        store.runs.begin(replace(RUN, run_id="run_2"), "owner")
        store.events.add("run_2", 1, [b"3"])

        assert [event.line for event in store.events.of_session("ses_1", run_id="run_2")] == ["3"]
        assert [event.line for event in store.events.of_session("ses_1")] == ["1", "2", "3"]
        assert list(store.events.of_session("ses_2", run_id="run_2")) == []


@pytest.mark.parametrize("wanted", ["nobody", "%", "ses%", "last"])
def test_a_session_that_is_not_there_is_named(wanted: str, place: StorePlace) -> None:
    with place.open() as store, pytest.raises(SessionUnknown, match="`ao sessions` and `ao runs` list"):
        store.sessions.find(wanted)


def test_a_run_says_what_its_caller_demanded(place: StorePlace) -> None:
    contract: JsonObject = {"source": "named", "schema_name": "review", "options": {"max_retries": 1}}
    with place.open() as store:
        store.sessions.add(SESSION)
        store.runs.begin(replace(RUN, contract=contract), "owner")

        assert store.runs.of_sessions("ses_1") == [replace(RUN, contract=contract)]
        assert [state.run for state in store.runs.states("running")] == [replace(RUN, contract=contract)]


@pytest.mark.parametrize("odd", ["a\0b", "a\ud800b", "\udfff"], ids=["NUL", "high", "low"])
def test_a_text_that_no_column_holds_finds_nothing_and_breaks_nothing(place: StorePlace, odd: str) -> None:
    with filled(place) as store:
        store.runs.end("run_1", "failed", "2026-01-01T00:00:01Z", odd)
        store.sessions.add(replace(SESSION, session_id="ses_2", profile=odd, project_dir=f"/{odd}"))

        assert not store.sessions.exists(odd)
        with pytest.raises(SessionUnknown):
            store.sessions.find(odd)
        assert store.runs.find(odd) == []
        assert store.schemas.find(odd) is None
        assert store.agents.find(odd) is None
        assert len(store.sessions.all()) == 2
        assert len(str(store.runs.states()[0].run.error_type)) == len(odd)
