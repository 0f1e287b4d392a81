"""Every field of a run and of a session is stored, read back, and taken over by a copy, or named here as not."""

from dataclasses import fields, replace
from typing import Any

from ao_runner.store.opening import StorePlace
from ao_runner.store.records import OPEN_STATUSES, Run, Session

SESSION = Session(
    "ses_1", "2026-01-01T00:00:00Z", "x", "/bin/x", "/project", {"name": "agent"}, {"model": "m"}, "theirs", "careful",
    "a-host", is_simulated=True, parent_session_id="ses_0",
)  # fmt: skip
RUN = Run(
    "run_1", "ses_1", "resume", {"prompt": "hi"}, "2026-01-02T00:00:00Z", "queued", "2026-01-03T00:00:00Z", "timeout",
    {"schema_name": "order"}, [{"request_id": "r"}], profile="careful", timeout_seconds=7.5, metadata={"case": 1},
    labels={"team": "docs"}, attachments=({"name": "a", "media_type": "text/plain", "data": "YQ=="},),
    model_script="{}", requires=("gpu",), priority=3, not_before="2026-01-04T00:00:00Z",
    requeue=True, parent_session_id="ses_0", execution_mode="async_poll", batch_id="bat_1",
    succeeds="run_0",
)  # fmt: skip
NEW_IN_A_COPY = {
    Session: {"session_id", "created_at", "executor_session_id", "host"},
    Run: {"run_id", "session_id", "started_at", "status", "ended_at", "error_type", "not_before", "succeeds"},
}


def test_every_field_has_a_value_here_that_is_not_its_default() -> None:
    for record in (SESSION, RUN):
        assert not [one.name for one in fields(record) if getattr(record, one.name) in (one.default, None, {})]


def test_every_field_is_read_as_it_was_stored(place: StorePlace) -> None:
    with place.open() as store:
        store.sessions.add(SESSION)
        store.queue.add(RUN)

        assert store.sessions.find("ses_1") == SESSION
        assert store.runs.exactly("run_1") == RUN
        assert store.runs.last("ses_1") == RUN
        (state,) = store.runs.states(*OPEN_STATUSES)
        assert state.run == replace(RUN, attachments=())  # no list reads the bytes


def test_a_copy_takes_over_every_field_that_is_not_new_in_it(place: StorePlace) -> None:
    with place.open() as store:
        store.sessions.add(SESSION)
        store.queue.add(replace(RUN, mode="start"))

        assert store.queue.requeue("run_1", ("run_2", "ses_2"), "2999-01-01T00:00:00.000Z", "2026-02-01T00:00:00.000Z")

        copy, session = store.runs.exactly("run_2"), store.sessions.find("ses_2")
        pairs: list[tuple[Any, Any]] = [(SESSION, session), (RUN, replace(copy, mode="resume"))]
        for original, copied in pairs:
            names = {one.name for one in fields(original)} - NEW_IN_A_COPY[type(original)]
            assert {name: getattr(original, name) for name in names} == {name: getattr(copied, name) for name in names}
        assert copy == replace(
            RUN, run_id="run_2", session_id="ses_2", mode="start", started_at="2026-02-01T00:00:00.000Z", ended_at=None,
            error_type=None, not_before="2999-01-01T00:00:00.000Z", succeeds="run_1",
        )  # fmt: skip
        assert session.executor_session_id is session.host is None
        ((name,),) = store.fetch("SELECT schema_name FROM runs WHERE run_id = 'run_2'")
        assert name == "order"
