"""A worker is killed while its runs work in worktrees, behind a sandbox."""

import json

from tests.faults.worker.working import MINIATURES, Home, until
from tests.process.lifeline.leftovers import processes_in
from tests.process.runner.test_sandbox import BWRAP, require_bwrap
from tests.repositories import git


def test_the_next_start_keeps_what_killed_runs_changed_and_removes_the_rest(home: Home) -> None:
    require_bwrap()
    git(home.project, "init", "-q")
    git(home.project, "commit", "-q", "--allow-empty", "-m", "first")
    profile = home.folder.parent / "mine.json"
    settings = {"workspace": "worktree", "sandbox": {"command": BWRAP}}
    profile.write_text(json.dumps({"executor": str(MINIATURES / "does_what_its_prompt_says.py"), **settings}))
    trees = {name: home.folder / "workspaces" / name / "project" for name in ("ses_1", "ses_2")}
    with home.worker("--profile", str(profile)) as worker:
        home.submit_to("ses_1", "echo half > b.txt; sleep 1000", profile=str(profile))
        home.submit_to("ses_2", "echo > x.txt; rm x.txt; touch $TMPDIR/x; sleep 1000", profile=str(profile))
        until((trees["ses_1"] / "b.txt").exists, "the first did nothing")
        until(lambda: len([pid for tree in trees.values() for pid in processes_in(tree, 0)]) >= 4, "they do not work")
        worker.killed()
    assert [pid for tree in trees.values() for pid in processes_in(tree)] == []

    worker = home.drained()

    assert worker.said(f"the workspace of a killed run is kept: {trees['ses_1']}") == 1
    assert (trees["ses_1"] / "b.txt").read_text() == "half\n"
    assert not trees["ses_2"].exists()
    assert home.outcomes() == {"attempt_lost": 2}
    assert home.call("sessions", "delete", "ses_1").returncode == 0
    assert list((home.folder / "workspaces").iterdir()) == []
    assert len(git(home.project, "worktree", "list").splitlines()) == 1


def test_a_worker_delivers_what_changed_before_the_end_of_the_run(home: Home) -> None:
    git(home.project, "init", "-q")
    git(home.project, "commit", "-q", "--allow-empty", "-m", "first")
    profile = home.folder.parent / "mine.json"
    executor = str(MINIATURES / "does_what_its_prompt_says.py")
    profile.write_text(json.dumps({"executor": executor, "workspace": "worktree"}))
    run_id = home.submit_to("ses_1", "echo x > b.txt", profile=str(profile))

    home.drained()

    told, terminal = home.events(run_id)[-2:]
    assert (told["event_type"], told["branch"], terminal["event_type"]) == ("_ao/workspace", "ao/ses_1", "result")
    record = json.loads(home.call("result", "ses_1", "--record").stdout)["record"]
    assert record["workspace"]["files"] == [{"path": "b.txt", "change": "added"}]
    assert git(home.project, "show", "ao/ses_1:b.txt") == "x"
    assert "1 file changed, branch ao/ses_1" in home.call("events", "ses_1", "--text").stdout
