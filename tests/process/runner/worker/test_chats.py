"""Sessions whose process waits for the next message, at an HTTP coordinator."""

import json
from pathlib import Path
from typing import Any, Final

from tests.faults.worker.serving import Scene, served
from tests.process.executors.driver import installed

PROFILE: Final = {
    "executor": "",
    "lifecycle": "persistent",
    "config": {"script": {"answers": [{"text": "one"}, {"text": "two"}, {"text": "three"}]}},
}


def write_profile(scene: Scene, **fields: Any) -> None:
    """Have the worker keep the process of a session."""
    path = scene.home.project.parent / "chat.json"
    path.write_text(json.dumps({**PROFILE, "executor": str(installed("ao-scripted-exec")), **fields}))
    scene.executor = str(path)


def session(scene: Scene) -> dict[str, Any]:
    return scene.server.state.sessions["ses_1"]


async def say(scene: Scene, run_id: str, kind: str) -> None:
    """Let the server hand out the next run of the session, and wait for its end."""
    scene.server.state.enqueue(run_id, "ses_1", type=kind, project_dir=str(scene.home.project))
    await scene.until_ended(run_id)


async def test_a_chat_goes_on_in_one_process_until_the_session_is_stopped(tmp_path: Path) -> None:
    async with served(tmp_path) as scene:
        write_profile(scene)
        async with scene.worker() as (worker, task):
            await say(scene, "run_1", "start_session")
            assert session(scene)["status"] == "idle"
            await say(scene, "run_2", "resume_session")
            assert session(scene)["status"] == "idle"
            assert [row["result_text"] for row in results(scene)] == ["one", "two"]

            await scene.server.state.answer("POST", ["sessions", "ses_1", "stop"], "", {})
            await scene.until(lambda: session(scene)["status"] == "finished", "the stop is not answered")
            assert not worker.launcher.keeps("ses_1")
            await scene.leave(worker, task)
        scene.home.check([])


async def test_a_session_is_finished_when_nobody_comes_back(tmp_path: Path) -> None:
    async with served(tmp_path) as scene:
        write_profile(scene, idle_exit_seconds=0.05)
        async with scene.worker() as (worker, task):
            await say(scene, "run_1", "start_session")
            await scene.until(lambda: session(scene)["status"] == "finished", "the session stays idle")
            await scene.leave(worker, task)
        scene.home.check([])


async def test_a_run_that_is_stopped_takes_the_process_of_its_session_along(tmp_path: Path) -> None:
    async with served(tmp_path) as scene:
        answers = [{"text": "one"}, {"text": "two", "delay_seconds": 60}]
        write_profile(scene, config={"script": {"answers": answers}})
        async with scene.worker() as (worker, task):
            await say(scene, "run_1", "start_session")
            scene.server.state.enqueue("run_2", "ses_1", type="resume_session", project_dir=str(scene.home.project))
            await scene.until(lambda: scene.server.state.runs["run_2"]["status"] == "running", "it does not begin")
            scene.server.state.stop("run_2")
            await scene.until_ended("run_2")
            assert scene.ends("run_2") == ["stopped"]
            assert session(scene)["status"] == "stopped"
            await scene.until(lambda: not len(worker.held), "the run is held")
            assert not worker.launcher.keeps("ses_1")
            await scene.leave(worker, task)
        assert session(scene)["status"] == "stopped"
        scene.home.check([])


def results(scene: Scene) -> list[dict[str, Any]]:
    return [row for row in scene.server.state.answers("ses_1") if row["event_type"] == "result"]
