"""What one run does, or is, changes nothing for the others of its worker."""

import json
import subprocess
from pathlib import Path

import pytest

from tests.faults.worker.working import Home, until

GOOD = "answers_at_once"
FAULT = """
from ao_runner.runs import run

real = run.check_run

def check_run(request, *given, **more):
    if request.session.session_id == "ses_bad":
        raise ZeroDivisionError
    return real(request, *given, **more)

run.check_run = check_run
"""


def with_blueprint(home: Home, run_id: str, blueprint: dict[str, object]) -> None:
    with home.store() as store, store.transaction():
        store.connection.execute(
            "UPDATE sessions SET blueprint = ? WHERE session_id = (SELECT session_id FROM runs WHERE run_id = ?)",
            (json.dumps(blueprint), run_id),
        )


def test_an_event_that_cannot_be_kept_is_set_aside_and_the_others_arrive(home: Home) -> None:
    bad, good = home.submit_to("ses_bad", "hi", "binds_half_a_character"), home.submit_to("ses_good", "hi", GOOD)

    home.drained()

    assert home.outcomes() == {"completed": 2}
    home.check([bad, good])


@pytest.mark.parametrize(
    "blueprint",
    [{"name": "${params.nothing}"}, {"name": "${runtime.run_id}", "system_prompt": 5}, {"mcp_servers": 1}],
    ids=["a placeholder for nothing", "a prompt that is a number", "no name at all"],
)
def test_a_blueprint_that_is_none_ends_its_own_run_only(home: Home, blueprint: dict[str, object]) -> None:
    bad, good = home.submit_to("ses_bad", "hi", GOOD), home.submit_to("ses_good", "hi", GOOD)
    with_blueprint(home, bad, blueprint)

    home.drained()

    assert home.outcomes() == {"invalid_invocation": 1, "completed": 1}
    assert home.events(bad)[-1]["error"]["type"] == "invalid_invocation"
    home.check([bad, good])


def test_a_fault_of_the_workers_in_one_run_ends_that_run_only(home: Home, tmp_path: Path) -> None:
    bad, good = home.submit_to("ses_bad", "hi", GOOD), home.submit_to("ses_good", "hi", GOOD)
    (tmp_path / "sitecustomize.py").write_text(FAULT)

    with home.worker(env={**home.environment(), "PYTHONPATH": str(tmp_path)}) as worker:
        home.finish(worker)

    assert home.outcomes() == {"internal_error": 1, "completed": 1}
    assert home.events(bad)[-1]["error"]["type"] == "internal_error"
    home.check([bad, good])


def test_a_log_that_nobody_reads_holds_up_no_run(home: Home) -> None:
    runs = home.submit(60, "1 0")
    unread = subprocess.Popen(
        home.command("worker", "--until-idle", "--log-format", "json"),
        env=home.environment(),
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        pipesize=4096,
    )
    try:
        until(lambda: home.outcomes().get("completed") == len(runs), "the runs wait for a reader of the log")
        assert unread.wait(60) == 0
    finally:
        unread.kill()
        unread.communicate()
    home.check(runs)
