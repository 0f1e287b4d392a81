"""Make the home of a user of this version, which every later version has to read: python -m tests.upgrade.making

It writes to `tests/upgrade/VERSION`: `home.tar.gz`, `told.json` with what the commands say about it, and `names.json`
with the public names of the Python packages; and to `postgres` in it the same home, whose store is a database. Call it
once for a release, and never again for the same version.
"""

import json
import signal
import sqlite3
import subprocess
import sysconfig
import tarfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import psycopg

from ao_executors import VERSION
from ao_runner.store.store_file import FILE_NAME as STORE
from ao_server.gate import tokens_of
from tests.faults.worker.working import until
from tests.postgres_server import PostgresServer, find_program
from tests.process.runner.cli.calling import NO_VARIABLES, Ao, Called
from tests.process.server.conftest import Served
from tests.upgrade.public_names import public_names

HERE: Final = Path(__file__).parent
ANSWER: Final = b"from the outbox"
"""The answer of the run whose message and result are in the outbox."""
INSTALLED_AT: Final = "/opt/ao/bin"
"""Stands in the data for the folder of the executors."""
DUMP: Final = "store.sql"
"""The database, beside the home that uses it."""
DATABASE: Final = "ao"
"""Part of its address, and so of the name of the folder of outboxes."""
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


@dataclass(frozen=True)
class User(Ao):
    """Whose commands use the store of this host, or the database that variables name."""

    variables: Mapping[str, str] = field(default_factory=dict)

    def environment(self) -> dict[str, str]:
        return {**super().environment(), **self.variables}

    @contextmanager
    def store_is_locked(self) -> Iterator[None]:
        """Let nobody write to the store, also nobody who waits for it at the end of the block."""
        if not self.variables:
            with closing(sqlite3.connect(self.folder / "ao-home" / STORE, isolation_level=None, timeout=30)) as store:
                store.execute("BEGIN IMMEDIATE")
                yield
            return
        with database_of(self.variables) as database:
            database.execute("LOCK TABLE runs, events IN EXCLUSIVE MODE")
            yield
            database.execute(
                "SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity"
                " WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )


def on_new_database(server: PostgresServer) -> dict[str, str]:
    """Empty the database of the homes, and return the variables that name it."""
    with psycopg.connect(server.url("postgres"), autocommit=True) as connection:
        connection.execute(f"DROP DATABASE IF EXISTS {DATABASE} WITH (FORCE)")
        connection.execute(f"CREATE DATABASE {DATABASE}")
    return {"AO_STORE": f"postgresql:///{DATABASE}", "PGHOST": str(server.data.parent), "PGUSER": "ao"}


def database_of(variables: Mapping[str, str]) -> psycopg.Connection:
    return psycopg.connect(dbname=DATABASE, host=variables["PGHOST"], user=variables["PGUSER"])


def dump_of(variables: Mapping[str, str]) -> str:
    """Return a database as SQL, without the commands of `psql`, which older ones do not know.

    The leases of its workers last: a run whose worker is dead is lost at the end of its lease, whatever an outbox has.
    """
    with database_of(variables) as database:
        database.execute("UPDATE workers SET lease_until = '2999-01-01 00:00:00+00'")
    server = find_program("postgres")
    assert server is not None
    program = str(server.with_name("pg_dump"))  # not a wrapper that has the same name
    command = [program, "--inserts", "--no-owner", "-h", variables["PGHOST"], "-U", variables["PGUSER"], DATABASE]
    told = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return "".join(line for line in told.splitlines(keepends=True) if not line.startswith("\\"))


@dataclass
class Maker:
    """The home of a user, and the commands that fill it."""

    ao: User

    def call(self, *arguments: str, exit_code: int = 0, **more: Any) -> Called:
        called = self.ao(*arguments, **more)
        assert called.exit_code == exit_code, called
        return called

    def submit(self, prompt: str, profile: str, *options: str) -> str:
        named = ("--profile", profile, "--project-dir", "/")
        return self.call("submit", "reviewer.yaml", "-p", prompt, *named, *options).stdout.strip()

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
    batch = maker.call(
        "submit", "reviewer.yaml", "--batch", "prompts.jsonl", "--profile", "plain", "--project-dir", "/"
    )
    ids["batch"] = batch.stdout.split()[0]
    maker.work()
    maker.call("submit", "--session", ids["completed"], "-p", "Again")
    maker.work()
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
    argv = maker.ao.argv("worker")
    with subprocess.Popen(argv, cwd=maker.ao.folder, env=maker.ao.environment(), stderr=subprocess.DEVNULL) as worker:
        until(lambda: "tool_started" in maker.ao("events", run).stdout, "the run does not begin")
        with maker.ao.store_is_locked():
            until(lambda: has_ended_in(home.glob("outboxes/*/0/*")), "the run does not end")
            worker.send_signal(signal.SIGKILL)
            worker.wait()
    return run


def has_ended_in(files: Iterable[Path]) -> bool:
    """Return whether the last message of the run and its result are in an outbox."""
    return any(file.read_bytes().count(ANSWER) == 2 for file in files)


def fill_server(home: Path, variables: Mapping[str, str]) -> None:
    """Store what pages and clients of a server store."""
    with Served(home, ("--no-worker", "--token"), dict(variables)) as server:
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


def move_executors(store: Path, before: str, after: str) -> None:
    """Replace the folder of the executors in a store."""
    with closing(sqlite3.connect(store)) as connection, connection:
        for table, column in (("sessions", "executor_path"), ("runs", "record")):
            connection.execute(f"UPDATE {table} SET {column} = replace({column}, ?, ?)", (before, after))  # noqa: S608


def main() -> None:
    """Make the files of both stores."""
    out = HERE / VERSION
    out.mkdir()
    (out / "names.json").write_text(json.dumps(public_names(), indent=1) + "\n")
    make_home(out, NO_VARIABLES)
    with PostgresServer() as server:
        make_home(out / "postgres", on_new_database(server))


def make_home(out: Path, variables: Mapping[str, str]) -> None:
    """Make the files of one store in a folder."""
    out.mkdir(exist_ok=True)
    with TemporaryDirectory() as name:
        ao = User(Path(name), variables)
        home = ao.folder / "ao-home"
        (home / "profiles").mkdir(parents=True)
        prompts = '{"prompt": "one"}\n{"prompt": "two"}\n'
        files = {
            "reviewer.yaml": AGENT,
            "verdict.json": json.dumps(SCHEMA),
            "note.txt": "a note\n",
            "prompts.jsonl": prompts,
        }
        profiles = {f"ao-home/profiles/{profile}.yaml": text.lstrip() for profile, text in PROFILES.items()}
        for file, text in {**files, **profiles}.items():
            ao.write(file, text)
        maker = Maker(ao)
        maker.call("serve", "token", "add", "anna", "--role", "client")
        fill_server(home, variables)
        ids = make(maker)
        here = sysconfig.get_path("scripts")
        answers = {
            " ".join(command): maker.call(*command).stdout.replace(here, INSTALLED_AT) for command in questions(ids)
        }
        (out / "told.json").write_text(json.dumps({"ids": ids, "answers": answers}, indent=1) + "\n")
        with tarfile.open(out / "home.tar.gz", "w:gz") as packed:
            if variables:
                packed.add(ao.write(DUMP, dump_of(variables).replace(here, INSTALLED_AT)), DUMP, filter=packed_as)
            else:
                move_executors(home / STORE, here, INSTALLED_AT)
            packed.add(home, "ao-home", filter=packed_as)


def packed_as(one: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """Return a file of the home as it is packed: of nobody, and without the space that an outbox keeps free."""
    one.uid = one.gid = 0
    one.uname = one.gname = ""
    return None if one.name.endswith("/reserve") else one


if __name__ == "__main__":
    main()
