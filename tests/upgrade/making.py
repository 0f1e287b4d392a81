"""Make the home of a user of this version, which every later version has to read: python -m tests.upgrade.making

It writes `tests/upgrade/VERSION/home.tar.gz`, and `told.json` with what the commands say about it. Call it once for a
release, and never again for the same version.
"""

import json
import shutil
import signal
import sqlite3
import subprocess
import tarfile
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from ao_executors import VERSION
from ao_runner.outbox.outbox_file import FILE_NAME as OUTBOX
from ao_runner.store.store_file import FILE_NAME as STORE
from ao_server.gate import tokens_of
from tests.faults.worker.working import until
from tests.process.runner.cli.calling import Ao, Called
from tests.process.server.conftest import Served

HERE: Final = Path(__file__).parent
PLACE: Final = Path("/tmp/ao-home-of-a-release")  # noqa: S108  # the same for everybody, since it is in the data
EXECUTORS: Final = ("echo", "scripted")
AGENT: Final = "name: reviewer\nsystem_prompt: Review.\n"
SCHEMA: Final = {"type": "object", "required": ["verdict"], "properties": {"verdict": {"enum": ["approve", "reject"]}}}
PROFILES: Final = {
    "plain": """
executor: scripted
description: Says two things
tags: [small]
pause_on_limit: true
config: {script: {answers: [{messages: [I think.], text: hello}, {text: hello again}]}}
""",
    "judge": """
executor: scripted
config: {script: {answers: [{text: "No."}, {json: {verdict: reject}}]}}
limits: {timeout_seconds: 30m, memory_bytes: 2GiB, processes: 500, max_event_bytes: 1MiB}
""",
    "broken": """
executor: scripted
config:
  script: {answers: [{usage: {input_tokens: 9, output_tokens: 3}, fail: {type: rate_limited, message: later}}]}
""",
    "careful": """
executor: scripted
input: {wait_seconds: 0.1, then: park}
config:
  script: {answers: [{tools: [{name: Bash, input: {command: rm -r build}, output: done, ask: true}], text: cleaned}]}
""",
    "slow": """
executor: scripted
config: {script: {answers: [{tools: [{name: wait, input: {}, output: waited, seconds: 9}], text: from the outbox}]}}
""",
}


@dataclass
class Maker:
    """The home of a user, and the commands that fill it."""

    ao: Ao

    def call(self, *arguments: str, exit_code: int = 0, **more: Any) -> Called:
        called = self.ao(*arguments, PATH=f"{PLACE}/bin:/usr/bin:/bin", **more)
        assert called.exit_code == exit_code, called
        return called

    def submit(self, prompt: str, profile: str, *options: str) -> str:
        return self.call("submit", "reviewer.yaml", "-p", prompt, "--profile", profile, *options).stdout.strip()

    def work(self) -> None:
        self.call("worker", "--until-idle")


def make(maker: Maker) -> dict[str, str]:
    """Fill a home, and return the ids of runs by what they are."""
    names = ("--label", "team=docs", "--metadata", "ticket=7")
    ids = {
        "completed": maker.submit("Hello", "plain", *names),
        "of no profile": maker.submit("Echo", "echo", "--attach", "note.txt"),
    }
    maker.call("schema", "add", "verdict", "verdict.json")
    ids["with a schema"] = maker.submit("Judge", "judge", "--output-schema-name", "verdict")
    ids["failed"] = maker.submit("Fail", "broken")
    ids["asks"] = maker.submit("Clean up", "careful")
    batch = maker.call("submit", "reviewer.yaml", "--batch", "prompts.jsonl", "--profile", "plain")
    ids["batch"] = batch.stdout.split()[0]
    maker.work()
    maker.call("resume", ids["completed"], "-p", "Again")
    ids["cancelled"] = maker.submit("Never", "plain")
    maker.call("cancel", ids["cancelled"])
    ids["in the outbox"] = leave_in_outbox(maker)
    ids["queued"] = maker.submit("Later", "plain", "--priority", "3", "--not-before", "2020-01-01T00:00:00Z")
    maker.call("limits", "set", "--profile", "plain", "2")
    return ids


def leave_in_outbox(maker: Maker) -> str:
    """Kill a worker that has the end of a run in its outbox, and could not store it; return the run."""
    run = maker.submit("Wait", "slow")
    home = maker.ao.folder / "ao-home"
    environment = maker.ao.environment() | {"PATH": f"{PLACE}/bin:/usr/bin:/bin"}
    argv = maker.ao.argv("worker")
    with subprocess.Popen(argv, cwd=maker.ao.folder, env=environment, stderr=subprocess.DEVNULL) as worker:
        until(lambda: "tool_started" in maker.ao("events", run).stdout, "the run does not begin")
        with closing(sqlite3.connect(home / STORE, isolation_level=None, timeout=30)) as store:
            store.execute("BEGIN IMMEDIATE")
            (file,) = home.glob(f"outboxes/local/*/{OUTBOX}")
            with closing(sqlite3.connect(file)) as outbox:
                until(lambda: outbox.execute("SELECT 1 FROM batches WHERE ends").fetchone(), "the run does not end")
            worker.send_signal(signal.SIGKILL)
            worker.wait()
    return run


def fill_server(home: Path) -> None:
    """Store what pages and clients of a server store."""
    with Served(home, ("--no-worker", "--token")) as server:
        server.client.headers["authorization"] = f"Bearer {tokens_of(home)['client']}"
        agent = {"name": "greeter", "system_prompt": "Greet.", "description": "Greets people"}
        assert server.client.post("/agents", json=agent).status_code == 201
        hook = {"url": "http://127.0.0.1:9/hook", "agents": ["reviewer"], "events": ["run.failed"]}
        assert server.client.post("/webhooks", json=hook).status_code == 201


def questions(ids: dict[str, str]) -> list[list[str]]:
    """Return the commands whose answers a later version repeats."""
    runs = [run for what, run in ids.items() if what not in {"batch", "in the outbox", "queued"}]
    of_each = [command for run in runs for command in (["events", run], ["result", run, "--record"])]
    lists = [
        ["runs", "--json"],
        ["sessions", "--json"],
        ["inputs", "--json"],
        ["schema", "list", "--json"],
        ["limits", "--json"],
    ]
    return [*lists, ["schema", "show", "verdict"], ["results", ids["batch"], "--format", "json"], *of_each]


def main() -> None:
    """Make both files."""
    out = HERE / VERSION
    out.mkdir()
    PLACE.mkdir()
    try:
        (PLACE / "bin").mkdir()
        for name in EXECUTORS:
            (PLACE / f"bin/ao-{name}-exec").symlink_to(str(shutil.which(f"ao-{name}-exec")))
        ao = Ao(PLACE)
        files = {"reviewer.yaml": AGENT, "verdict.json": json.dumps(SCHEMA), "note.txt": "a note\n",
                 "prompts.jsonl": '{"prompt": "one"}\n{"prompt": "two"}\n'}  # fmt: skip
        for name, text in files.items():
            ao.write(name, text)
        (PLACE / "ao-home/profiles").mkdir(parents=True)
        for name, profile in PROFILES.items():
            ao.write(f"ao-home/profiles/{name}.yaml", profile.lstrip())
        maker = Maker(ao)
        maker.call("serve", "token", "add", "anna", "--role", "client")
        fill_server(PLACE / "ao-home")
        ids = make(maker)
        answers = {" ".join(command): maker.call(*command).stdout for command in questions(ids)}
        (out / "told.json").write_text(json.dumps({"ids": ids, "answers": answers}, indent=1) + "\n")
        with tarfile.open(out / "home.tar.gz", "w:gz") as packed:
            packed.add(PLACE / "ao-home", "ao-home")
    finally:
        shutil.rmtree(PLACE)


if __name__ == "__main__":
    main()
