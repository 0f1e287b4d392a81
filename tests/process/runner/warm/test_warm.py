"""Processes that are there before their run is: real executors under one launcher."""

import asyncio
import json
import os
import resource
import signal
import sys
from collections.abc import Callable, Coroutine
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ao_protocol.events import Result
from ao_protocol.wire import JsonObject
from ao_runner.processes.containment import lifelines, probe
from ao_runner.profiles import Profile, ProfileLimits, Warm
from ao_runner.runs.journal import StoredJournal
from ao_runner.runs.run import perform_run
from ao_runner.runs.run_request import RunRequest, StopRequests, request_under
from ao_runner.runs.submission import new_run_id
from ao_runner.store.ownership import own_runs
from ao_runner.store.records import Run, RunRecord, Session
from ao_runner.store.sqlite_store import SqliteStore
from ao_runner.warm import WarmLauncher
from tests.process.executors.driver import installed
from tests.process.runner.performing import MINIATURES, Follower


class House:
    """A store and a warm launcher, and runs of one profile in it."""

    def __init__(self, home: Path, profile: Profile, launcher: WarmLauncher, store: SqliteStore, owner: str) -> None:
        self.home, self.profile, self.launcher = home, profile, launcher
        self._store, self._owner = store, owner

    def session(self, session_id: str) -> Session:
        bound = "s_1"  # as a run before has bound it
        session = Session(session_id, "now", "x", "x", str(self.home), {"name": "agent"}, executor_session_id=bound)
        self._store.sessions.add(session)
        return session

    def order(self, session: Session, mode: Any, prompt: str) -> RunRequest:
        run = Run(new_run_id(), session.session_id, mode, {"prompt": prompt}, "now")
        return request_under(self.profile, self._store.sessions.find(session.session_id), run, environ=os.environ)

    async def perform(self, session: Session, mode: Any = "start", prompt: str = "hi") -> tuple[str | None, RunRecord]:
        order = self.order(session, mode, prompt)
        journal = StoredJournal(self._store, order.run, Follower(), self._owner)
        terminal = await perform_run(order, journal, StopRequests(), self.launcher)
        record = self._store.runs.find_record(order.run.run_id)
        assert record is not None
        return terminal.result_text if isinstance(terminal, Result) else terminal.error.message, record


def in_house(folder: Path, profile: Profile, story: Callable[[House], Coroutine[Any, Any, None]]) -> None:
    async def live() -> None:
        with (
            lifelines(probe(os.environ)) as lines,
            WarmLauncher(lines) as launcher,
            SqliteStore(folder / "home") as store,
            own_runs(folder / "home") as owner,
        ):
            await story(House(folder, profile, launcher, store, owner))

    asyncio.run(live())


SCRIPT: JsonObject = {"script": {"answers": [{"text": "one"}, {"text": "two"}, {"text": "three"}]}}


def scripted(**more: Any) -> Profile:
    return Profile(name="scripted", executor=str(installed("ao-scripted-exec")), config=SCRIPT, **more)


async def until(reached: Callable[[], bool]) -> None:
    async with asyncio.timeout(100):
        while not reached():  # noqa: ASYNC110  # it happens in another process
            await asyncio.sleep(0.005)


def test_a_session_keeps_its_process_over_its_runs(tmp_path: Path) -> None:
    async def story(house: House) -> None:
        session = house.session("ses_1")

        first = await house.perform(session)
        second = await house.perform(session, "resume", "and now?")
        third = await house.perform(session, "resume", "and then?")

        assert [first[0], second[0], third[0]] == ["one", "two", "three"]
        assert [record.launched for _, record in (first, second, third)] == ["cold", "kept", "kept"]
        assert first[1].exit_code is None

    in_house(tmp_path, scripted(lifecycle="persistent"), story)


def test_a_kept_process_that_died_is_replaced_by_a_resume(tmp_path: Path) -> None:
    async def story(house: House) -> None:
        session = house.session("ses_1")
        await house.perform(session)
        house.launcher.kept["ses_1"].child.signal_group(signal.SIGKILL)
        await until(lambda: not house.launcher.kept)

        text, record = await house.perform(session, "resume")

        assert (text, record.launched) == ("two", "cold")

    in_house(tmp_path, scripted(lifecycle="persistent"), story)


@pytest.mark.parametrize(("exit_code", "text"), [(0, "resume"), (1, "the executor exited with code 1")])
def test_a_process_that_leaves_well_at_its_turn_is_replaced_and_one_that_fails_is_not(
    tmp_path: Path, exit_code: int, text: str
) -> None:
    async def story(house: House) -> None:
        session = house.session("ses_1")
        await house.perform(session, prompt=str(exit_code))

        said, record = await house.perform(session, "resume")

        assert str(said).startswith(text)
        assert record.launched == ("kept" if exit_code else "cold")

    profile = Profile(name="x", executor=str(MINIATURES / "leaves_at_its_turn.py"), lifecycle="persistent")
    in_house(tmp_path, profile, story)


HANGS_AT_ITS_TURN = f"""#!{sys.executable}
import json, signal, sys
sys.path.append({str(MINIATURES)!r})
from speaking import Speaker
speaker = Speaker(multi_turn=True, resume=True)
speaker.start()
limits, mode = speaker.invocation["limits"], speaker.invocation["mode"]
speaker.result(json.dumps([mode, limits["timeout_seconds"]]))
if "--reads" in speaker.invocation["parameters"]["prompt"]:
    speaker.read_line()
signal.pause()
"""


@pytest.mark.parametrize("prompt", ["hi", "--reads"])
def test_a_kept_process_that_hangs_is_replaced_where_it_has_not_read_its_turn(tmp_path: Path, prompt: str) -> None:
    async def story(house: House) -> None:
        session = house.session("ses_1")
        await house.perform(session, prompt=prompt)
        assert house.launcher.kept

        said, record = await house.perform(session, "resume")

        if prompt == "--reads":  # nobody knows what it has done since
            assert (said, record.launched) == ("the executor did not send run_started in time and was stopped", "kept")
            return
        mode, seconds = json.loads(str(said))
        assert (mode, record.launched) == ("resume", "cold")
        assert seconds <= 97

    executor = tmp_path / "hangs"
    executor.write_text(HANGS_AT_ITS_TURN)
    executor.chmod(0o755)
    limits = ProfileLimits(start_seconds=3, timeout_seconds=100)
    in_house(tmp_path, Profile(name="x", executor=str(executor), lifecycle="persistent", limits=limits), story)


@pytest.mark.parametrize("how", ["dies", "expires", "is_retired"])
def test_a_session_whose_process_no_longer_waits_is_reported_once(tmp_path: Path, how: str) -> None:
    async def story(house: House) -> None:
        left: list[str] = []
        house.launcher.on_session_left = left.append
        session = house.session("ses_1")
        await house.perform(session)
        if how == "dies":
            house.launcher.kept["ses_1"].child.signal_group(signal.SIGKILL)
        elif how == "is_retired":
            house.launcher.retire_session("ses_1")
        await until(lambda: bool(left))
        await until(lambda: not house.launcher._leaving)

        assert left == ["ses_1"]
        assert not house.launcher.keeps("ses_1")

    idle_exit_seconds = 0.01 if how == "expires" else None
    in_house(tmp_path, scripted(lifecycle="persistent", idle_exit_seconds=idle_exit_seconds), story)


def test_a_kept_process_leaves_when_nobody_comes_back(tmp_path: Path) -> None:
    async def story(house: House) -> None:
        await house.perform(house.session("ses_1"))
        child = house.launcher.kept["ses_1"].child
        await until(lambda: not house.launcher.kept and child.exit_code is not None)

        assert child.exit_code == 0

    in_house(tmp_path, scripted(lifecycle="persistent", idle_exit_seconds=0.05), story)


def test_a_kept_process_is_not_used_for_other_options(tmp_path: Path) -> None:
    async def story(house: House) -> None:
        session = house.session("ses_1")
        await house.perform(session)
        house.profile = scripted(lifecycle="persistent", limits={"timeout_seconds": 99})

        assert (await house.perform(session, "resume"))[1].launched == "cold"

    in_house(tmp_path, scripted(lifecycle="persistent"), story)


def test_a_parked_process_takes_the_next_run_and_another_one_takes_its_place(tmp_path: Path) -> None:
    async def story(house: House) -> None:
        await house.launcher.park_ahead(house.order(house.session("ses_0"), "start", "hi"))
        (parked,) = house.launcher.parked

        text, record = await house.perform(house.session("ses_1"))

        assert (text, record.launched, record.exit_code) == ("one", "parked", 0)
        await until(lambda: len(house.launcher.parked) == 1)  # a moment after the start of the run
        assert house.launcher.parked[0] is not parked

    in_house(tmp_path, scripted(warm=Warm(size=1)), story)


def test_processes_are_parked_one_after_another_up_to_the_size_of_the_pool(tmp_path: Path) -> None:
    async def story(house: House) -> None:
        order = house.order(house.session("ses_0"), "start", "hi")
        await house.launcher.park_ahead(order)
        assert len(house.launcher.parked) == 1  # a run that came now would not have to wait for the others

        await house.launcher.park_ahead(order)
        await until(lambda: len(house.launcher.parked) == 3)
        await house.perform(house.session("ses_1"))
        await until(lambda: len(house.launcher.parked) == 3)

    in_house(tmp_path, scripted(warm=Warm(size=3)), story)


def test_a_parked_process_that_died_is_not_used(tmp_path: Path) -> None:
    async def story(house: House) -> None:
        await house.launcher.park_ahead(house.order(house.session("ses_0"), "start", "hi"))
        dead = house.launcher.parked[0]
        dead.child.signal_group(signal.SIGKILL)
        await until(lambda: dead not in house.launcher.parked)

        text, record = await house.perform(house.session("ses_1"))  # another one may be parked by now
        assert (text, record.exit_code) == ("one", 0)

    in_house(tmp_path, scripted(warm=Warm(size=1)), story)


def test_a_parked_process_is_not_used_in_another_environment(tmp_path: Path) -> None:
    async def story(house: House) -> None:
        await house.launcher.park_ahead(house.order(house.session("ses_0"), "start", "hi"))
        house.profile = scripted(warm=Warm(size=1), environment={"set": {"COLOUR": "blue"}})

        assert (await house.perform(house.session("ses_1")))[1].launched == "cold"

    in_house(tmp_path, scripted(warm=Warm(size=1)), story)


def test_a_parked_process_that_speaks_unasked_is_ended(tmp_path: Path) -> None:
    async def story(house: House) -> None:
        order = house.order(house.session("ses_0"), "start", "hi")
        await house.launcher.park_ahead(order)
        waiting = house.launcher.parked[0]
        await until(lambda: waiting not in house.launcher.parked)
        await until(lambda: waiting.child.exit_code is not None)

    profile = Profile(name="x", executor=str(MINIATURES / "speaks_before_it_is_asked.py"), warm=Warm(size=1))
    in_house(tmp_path, profile, story)


def test_a_kept_process_is_not_used_in_the_environment_of_another_profile(tmp_path: Path) -> None:
    async def story(house: House) -> None:
        session = house.session("ses_1")
        await house.perform(session)
        house.profile = scripted(lifecycle="persistent", environment={"set": {"TOKEN": "of the other"}})

        assert (await house.perform(session, "resume"))[1].launched == "cold"

    in_house(tmp_path, scripted(lifecycle="persistent"), story)


def test_a_process_that_left_after_its_run_all_the_same_is_replaced(tmp_path: Path) -> None:
    async def story(house: House) -> None:
        session = house.session("ses_1")
        for _ in range(10):
            text, _record = await house.perform(session, "resume")
            assert text == "done"
            if kept := house.launcher.kept.get("ses_1"):
                await until(lambda kept=kept: not kept.is_there)  # type: ignore[misc]

    profile = Profile(name="x", executor=str(MINIATURES / "promises_to_stay.py"), lifecycle="persistent")
    in_house(tmp_path, profile, story)


def test_a_parked_process_waits_in_the_folder_of_its_run(tmp_path: Path) -> None:
    async def story(house: House) -> None:
        await house.launcher.park_ahead(house.order(house.session("ses_0"), "start", "hi"))

        text, record = await house.perform(house.session("ses_1"))

        assert record.launched == "parked"
        assert json.loads(str(text))["cwd"] == str(tmp_path)

    profile = Profile(name="x", executor=str(MINIATURES / "shows_its_environment.py"), warm=Warm(size=1))
    in_house(tmp_path, profile, story)


def test_a_process_is_prepared_by_a_line_longer_than_its_pipe(tmp_path: Path) -> None:
    (tmp_path / "agent.json").write_text('{"name": "agent"}')

    async def story(house: House) -> None:
        await house.launcher.park_ahead(house.order(house.session("ses_0"), "start", "hi"))
        (parked,) = house.launcher.parked
        await until(lambda: b"prepared" in parked.stderr.kept())

        text, record = await house.perform(house.session("ses_1"))

        assert record.launched == "prepared"
        assert int(str(text)) > 300_000

    profile = Profile(
        name="x",
        executor=str(MINIATURES / "tells_that_it_is_prepared.py"),
        config={"long": "x" * 300_000},
        warm=Warm(size=1, blueprint=str(tmp_path / "agent.json")),
    )
    in_house(tmp_path, profile, story)


def test_no_process_is_prepared_with_the_secrets_of_a_run(tmp_path: Path) -> None:
    (tmp_path / "agent.yaml").write_text("name: agent")

    async def story(house: House) -> None:
        order = house.order(house.session("ses_1"), "start", "hi")
        await house.launcher.park_ahead(replace(order, secret_values={"orchestrator_mcp_url": "token-of-ses_1"}))

        assert [parked.prepared for parked in house.launcher.parked] == [None]

    profile = Profile(
        name="x",
        executor=str(MINIATURES / "tells_that_it_is_prepared.py"),
        warm=Warm(size=1, blueprint=str(tmp_path / "agent.yaml")),
    )
    in_house(tmp_path, profile, story)


def test_a_blueprint_that_no_process_can_be_prepared_for_is_told_once_and_processes_wait_unprepared(
    tmp_path: Path,
) -> None:
    told: list[str] = []

    async def story(house: House) -> None:
        house.launcher.tell = told.append
        for number in range(2):
            await house.perform(house.session(f"ses_{number}"))
            await until(lambda: len(house.launcher.parked) == 1)
        text, record = await house.perform(house.session("ses_2"))
        assert (text, record.launched) == ("done", "parked")

    executor = tmp_path / "preparable"
    executor.write_text(
        f"#!{sys.executable}\nimport sys\nsys.path.append({str(MINIATURES)!r})\nfrom speaking import Speaker\n"
        "speaker = Speaker(prepare=True)\nspeaker.start()\nspeaker.result()\n"
    )
    executor.chmod(0o755)
    profile = Profile(name="x", executor=str(executor), warm=Warm(size=1, blueprint=str(tmp_path)))
    in_house(tmp_path, profile, story)
    sentence = f"{tmp_path}: found a folder, expected a regular file"
    assert told == [f"no process is prepared for the agent of warm.blueprint: {sentence}"]


def test_a_parked_process_that_grows_old_is_replaced(tmp_path: Path) -> None:
    async def story(house: House) -> None:
        await house.launcher.park_ahead(house.order(house.session("ses_0"), "start", "hi"))
        (parked,) = house.launcher.parked
        await until(lambda: bool(house.launcher.parked) and house.launcher.parked[0] is not parked)

    in_house(tmp_path, scripted(warm=Warm(size=1, max_age_seconds=0.3)), story)


def test_waiting_processes_are_used_where_descriptors_have_high_numbers(tmp_path: Path) -> None:
    async def story(house: House) -> None:
        await house.launcher.park_ahead(house.order(house.session("ses_0"), "start", "hi"))
        text, record = await house.perform(house.session("ses_1"))
        assert (text, record.launched) == ("one", "parked")

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, hard), hard))
    with ExitStack() as taken:
        taken.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        while taken.enter_context(open(os.devnull)).fileno() < 1100:  # noqa: PTH123
            pass
        in_house(tmp_path, scripted(warm=Warm(size=1)), story)
