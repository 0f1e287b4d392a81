"""Agents run from Python: the answer is a value, a failure an exception, and the run is stored."""

import asyncio
import sys
import threading
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

import ao_runner.agents
from ao_protocol.contracts.vetting import vetted_document
from ao_runner.agents import Agent, AgentFailed, Answer, Event
from ao_runner.errors import RunnerError
from ao_runner.store.run_filter import RunFilter
from ao_runner.store.sqlite_store import SqliteStore
from ao_runner.store.store_errors import SessionUnknown

ROOT = Path(__file__).parents[3]
MINIATURES = ROOT / "tests/miniatures"
ECHO_AGENT: dict[str, Any] = {"name": "parrot", "system_prompt": "Repeat."}


class Count(BaseModel):
    n: int


class Word(BaseModel):
    n: str


def echo(tmp_path: Path, **fields: Any) -> Agent[Any]:
    return Agent(**{"blueprint": ECHO_AGENT, "profile": "echo", "home": tmp_path, **fields})


def stored(tmp_path: Path) -> list[str]:
    """Return the status of each stored run."""
    with SqliteStore(tmp_path) as store:
        return [run.run.status for run in store.runs.search(RunFilter())]


def test_an_answer_without_a_contract_is_text(tmp_path: Path) -> None:
    events: list[Event] = []
    answer = echo(tmp_path).run("hi", on_event=events.append)
    assert answer.value == "hi"
    assert [event.body.event_type for event in events] == ["run_started", "message", "result"]
    with SqliteStore(tmp_path) as store:
        assert store.sessions.find(answer.session_id).agent_name == "parrot"


def test_an_agent_of_another_tool_warns_of_what_is_not_carried_over(tmp_path: Path) -> None:
    file = tmp_path / "helper.md"
    file.write_text("---\ndescription: Helps\nmodel: opus\n---\nYou help.\n")

    with pytest.warns(UserWarning, match=r"helper\.md: \$\.model: 'opus' is not carried over; write --model opus"):
        answer = echo(tmp_path, blueprint=file).run("hi")

    assert answer.value == "hi"
    with SqliteStore(tmp_path) as store:
        assert store.sessions.find(answer.session_id).blueprint["system_prompt"] == "You help."


@pytest.mark.parametrize(
    ("fields", "place"),
    [
        ({"parameters": {"prompt": "\ud800"}}, 'parameters.prompt: ".ud800" holds half a surrogate pair'),
        ({"parameters": {"prompt": float("inf")}}, "parameters.prompt: Infinity is not a JSON number"),
        ({"config": {"delay": 2**53}}, "config.delay: 9007199254740992 is outside"),
        ({"blueprint": {"name": "a\0b"}}, r"\$.name: found U\+0000"),
        ({"blueprint": {"name": "x", "system_prompt": "\udfff"}}, r"\$.system_prompt: .* half a surrogate pair"),
    ],
    ids=["prompt", "number", "config", "name", "system prompt"],
)
def test_what_no_invocation_can_hold_is_refused_and_not_stored(
    tmp_path: Path, fields: dict[str, Any], place: str
) -> None:
    parameters = fields.pop("parameters", {"prompt": "hi"})
    with pytest.raises((ValueError, RunnerError), match=place):
        echo(tmp_path, **fields).run(parameters=parameters)
    with SqliteStore(tmp_path) as store:
        assert store.sessions.all() == []


def test_an_answer_is_an_instance_of_the_model_that_is_asked_for(tmp_path: Path) -> None:
    answer = Agent(ECHO_AGENT, Count, profile="echo", home=tmp_path).run('Here: {"n": 3}')
    assert answer.value == Count(n=3)


def test_an_answer_that_does_not_fit_the_model_is_a_failure(tmp_path: Path) -> None:
    with pytest.raises(AgentFailed, match=r'schema_validation_failed: .*\$\.n: "3" is not of type "integer"') as caught:
        Agent(ECHO_AGENT, Count, profile="echo", home=tmp_path).run('{"n": "3"}')
    assert caught.value.failure.error.type == "schema_validation_failed"


def test_a_designers_schema_stands_and_the_model_is_checked_beside_it(tmp_path: Path) -> None:
    designed = {**ECHO_AGENT, "output_schema": {"type": "object", "required": ["n"]}}
    assert echo(tmp_path, blueprint=designed, answer=Word).run('{"n": "3"}').value == Word(n="3")
    with pytest.raises(ValidationError, match="Input should be a valid string"):
        echo(tmp_path, blueprint=designed, answer=Word).run('{"n": 3}')


def test_the_blueprint_of_a_procedural_agent_finds_its_command(tmp_path: Path) -> None:
    agent: Agent[Any] = Agent(ROOT / "docs" / "examples" / "echo" / "blueprint.json", home=tmp_path)
    assert agent.run(parameters={"message": "hi", "times": 2}).value == {"echo": ["hi", "hi"], "tags": []}


def test_runs_share_a_loop_and_a_home(tmp_path: Path) -> None:
    async def both() -> list[Any]:
        return [answer.value for answer in await asyncio.gather(*(echo(tmp_path).run_async(text) for text in "ab"))]

    assert asyncio.run(both()) == ["a", "b"]


def test_a_session_is_continued_with_its_own_blueprint(tmp_path: Path) -> None:
    script = {"answers": [{"text": "first"}, {"text": "second"}]}
    first = echo(tmp_path, profile="scripted", config={"script": script}).run("one")
    again = echo(tmp_path, blueprint={"name": "other"}, profile=None).run("two", session_id=first.session_id)

    assert (first.value, again.value, again.session_id) == ("first", "second", first.session_id)
    with SqliteStore(tmp_path) as store:
        runs = store.runs.of_sessions(first.session_id)
        assert [(run.run_id, run.mode) for run in runs] == [(first.run_id, "start"), (again.run_id, "resume")]
        assert store.sessions.find(first.session_id).blueprint["name"] == "parrot"
    with pytest.raises(SessionUnknown, match="'ses_none'"):
        echo(tmp_path).run("x", session_id="ses_none")


def test_an_answer_has_the_usage_of_its_run_and_its_attempts(tmp_path: Path) -> None:
    script = {
        "answers": [{"text": "no", "usage": {"input_tokens": 3}}, {"text": '{"n": 2}', "usage": {"cost_usd": 0.5}}]
    }
    answer = echo(tmp_path, profile="scripted", answer=Count, config={"script": script}).run("n?")

    assert (answer.value, answer.attempts) == (Count(n=2), 2)
    assert answer.usage is not None
    assert (answer.usage.input_tokens, answer.usage.cost_usd) == (3, 0.5)


def test_a_setting_that_the_executor_does_not_know_is_told(tmp_path: Path) -> None:
    config = {"scrpt": "x", "script": {"answers": [{"text": "yes"}]}}
    with pytest.warns(UserWarning, match=r"scripted: \$\.scrpt: unknown setting; did you mean 'script'\?"):
        echo(tmp_path, profile="scripted", config=config).run("x")


def test_a_stream_yields_events_while_the_run_goes_on_and_then_the_answer(tmp_path: Path) -> None:
    goes_on = tmp_path / "goes_on"
    agent = echo(tmp_path, profile=str(MINIATURES / "speaks_in_pieces.py"))
    with agent.stream(str(goes_on)) as events:
        assert next(events).body.event_type == "run_started"
        goes_on.touch()
        assert [event.body.event_type for event in events][-2:] == ["message", "result"]
        assert list(events) == []
    assert events.answer.value == "done"
    assert stored(tmp_path) == ["completed"]


def test_leaving_a_stream_stops_its_run(tmp_path: Path) -> None:
    with echo(tmp_path, profile=str(MINIATURES / "speaks_in_pieces.py")).stream("/never/there") as events:
        next(events)
    with pytest.raises(RunnerError, match="its stream was closed before it ended"):
        events.answer  # noqa: B018  # it is the access that raises
    assert stored(tmp_path) == ["cancelled"]


def test_a_stream_raises_what_a_run_raises(tmp_path: Path) -> None:
    agent = echo(tmp_path, profile=str(MINIATURES / "crashes_by_signal.py"))
    with agent.stream("x") as events, pytest.raises(AgentFailed):
        list(events)
    with echo(tmp_path).stream("x", session_id="ses_none") as events, pytest.raises(SessionUnknown):
        next(events)


def test_a_batch_has_an_answer_or_a_failure_for_each_prompt_in_their_order(tmp_path: Path) -> None:
    agent = echo(tmp_path, answer=Count)
    answers = agent.batch(['{"n": 1}', "nothing", {"prompt": '{"n": 3}'}], concurrency=2)

    assert [one.value.n if isinstance(one, Answer) else str(one.failure.error.type) for one in answers] == [
        1, "schema_validation_failed", 3,
    ]  # fmt: skip
    assert echo(tmp_path).batch([]) == []
    with pytest.raises(ValueError, match="concurrency: found 0, expected at least 1"):
        echo(tmp_path).batch(["x"], concurrency=0)


def test_a_batch_is_refused_as_a_whole_by_what_refuses_one_run(tmp_path: Path) -> None:
    slow = echo(tmp_path, profile=str(MINIATURES / "speaks_in_pieces.py"))
    with pytest.raises(ValueError, match="half a surrogate pair"):
        slow.batch(["/never/there", "\ud800"], concurrency=2)
    assert stored(tmp_path) in ([], ["cancelled"])


@pytest.mark.parametrize("method", ["run", "batch"])
def test_what_blocks_says_in_an_event_loop_what_to_await(method: str, tmp_path: Path) -> None:
    async def call() -> None:
        getattr(echo(tmp_path), method)("x")

    with pytest.raises(RuntimeError, match=rf"await agent\.{method}_async"):
        asyncio.run(call())


def test_the_public_names_stay_and_are_documented() -> None:
    assert set(ao_runner.agents.__all__) >= {"Agent", "AgentFailed", "AgentStream", "Answer", "Attachment", "Event"}
    methods = {"run", "run_async", "stream", "batch", "batch_async"}
    assert {*dir(Agent)} >= methods
    page = (ROOT / "docs/python.md").read_text()
    assert [name for name in {*ao_runner.agents.__all__, *methods} if f"`{name}" not in page] == []


def test_a_cancelled_task_stops_its_run_and_the_run_is_stored(tmp_path: Path) -> None:
    script = tmp_path / "script.json"
    script.write_text('{"answers": [{"delay_seconds": 600, "text": "late"}]}')

    async def start_and_cancel() -> None:
        has_started = asyncio.Event()
        agent = echo(tmp_path, profile="scripted", config={"script_file": str(script)})
        task = asyncio.ensure_future(agent.run_async("hi", on_event=lambda _event: has_started.set()))
        await has_started.wait()
        task.cancel()
        await task

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(start_and_cancel())
    with SqliteStore(tmp_path) as store:
        (session,) = store.sessions.all()
        assert [run.status for run in store.runs.of_sessions(session.session_id)] == ["cancelled"]


def test_what_is_no_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match=r"answer: found <class 'int'>, expected a class derived from"):
        echo(tmp_path, answer=int).run("hi")


class Once(BaseModel):
    """A schema that no other test of this process uses."""

    n: int


def test_a_schema_is_vetted_once_in_the_runner(tmp_path: Path) -> None:
    script = tmp_path / "script.json"
    script.write_text('{"answers": [{"text": "no"}, {"text": "{\\"n\\": 1}"}]}')
    vetted: list[object] = []

    class Once(Count):
        """A schema that no other test has had vetted."""

    def watch(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code is vetted_document.__code__:
            vetted.append(frame.f_locals["schema"])

    threading.setprofile(watch)
    sys.setprofile(watch)
    try:
        found = echo(tmp_path, profile="scripted", config={"script_file": str(script)}, answer=Once).run("count")
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    assert found.value == Once(n=1)
    assert len([schema for schema in vetted if isinstance(schema, dict) and schema.get("title") == "Once"]) == 1
