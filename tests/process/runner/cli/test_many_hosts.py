"""`ao` on two hosts with one database: each has a home of its own."""

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.postgres_server import PostgresServer
from tests.process.runner.cli.calling import SECONDS, Ao, miniature


@pytest.fixture
def store(postgres: PostgresServer) -> str:
    return postgres.new_database()


@pytest.fixture
def other(tmp_path: Path) -> Ao:
    (tmp_path / "other").mkdir()
    return Ao(tmp_path / "other")


@contextmanager
def working(ao: Ao, store: str, host: str) -> Iterator["subprocess.Popen[bytes]"]:
    """Keep a worker of a host working until the end of the block."""
    environment = ao.environment() | {"AO_STORE": store, "AO_HOST": host}
    with subprocess.Popen(ao.argv("worker"), cwd=ao.folder, env=environment, stderr=subprocess.DEVNULL) as worker:
        try:
            yield worker
        finally:
            worker.terminate()
            worker.wait(SECONDS)


def test_one_host_submits_and_another_performs(ao: Ao, other: Ao, store: str) -> None:
    with working(other, store, "b"):
        submitted = ao("submit", "agent.yaml", "-p", "hi", "--profile", "echo", "--wait", AO_STORE=store)

    assert (submitted.exit_code, submitted.stdout) == (0, "hi\n")
    assert ao("result", "last", AO_STORE=store).stdout == "hi\n"
    events = ao("events", "last", AO_STORE=store).stdout.splitlines()
    assert [json.loads(line)["seq"] for line in events] == [1, 2, 3]
    assert [run["status"] for run in ao("runs", "--json", AO_STORE=store).document] == ["completed"]
    assert ao("runs", "--json").document == []


def test_a_run_is_cancelled_from_another_host(ao: Ao, other: Ao, store: str) -> None:
    profile = miniature("leaves_when_asked")
    run = ao("submit", "agent.yaml", "-p", "hi", "--profile", profile, AO_STORE=store).stdout.strip()
    environment = ao.environment() | {"AO_STORE": store}
    follow = ao.argv("events", run, "--follow")
    with (
        working(other, store, "b"),
        subprocess.Popen(follow, cwd=ao.folder, env=environment, stdout=subprocess.PIPE) as events,
    ):
        assert events.stdout is not None
        assert json.loads(events.stdout.readline())["event_type"] == "run_started"
        assert ao("cancel", run, AO_STORE=store).exit_code == 0
        followed = [json.loads(line)["event_type"] for line in events.stdout]

    assert followed[-1] == "failure"
    assert ao("result", run, "--json", AO_STORE=store).document["status"] == "cancelled"


def limited(*hosts: Ao) -> None:
    for host in hosts:
        profiles = host.folder / "ao-home" / "profiles"
        profiles.mkdir(parents=True)
        (host.folder / "ao-home").chmod(0o700)
        (profiles / "limited.yaml").write_text(f"executor: {miniature('is_limited_once')}\npause_on_limit: true\n")


def test_a_run_at_its_usage_limit_continues_after_the_reset(ao: Ao, other: Ao, store: str) -> None:
    limited(ao, other)
    with working(other, store, "b"):
        arguments = ("agent.yaml", "-p", "1", "--profile", "limited", "--requeue-at-reset", "--wait")
        submitted = ao("submit", *arguments, AO_STORE=store)

    assert (submitted.exit_code, submitted.stdout) == (0, "done\n")
    assert "it ended at a usage limit and continues as run_" in submitted.stderr
    newer, older = ao("runs", "--json", AO_STORE=store).document
    assert (older["status"], older["error_type"], newer["status"]) == ("failed", "quota_exceeded", "completed")
    assert newer["succeeds"] == older["run_id"]


def test_a_usage_limit_pauses_the_profile_on_all_hosts(ao: Ao, other: Ao, store: str) -> None:
    limited(ao, other)
    with working(other, store, "b"):
        ended = ao("submit", "agent.yaml", "-p", "1000", "--profile", "limited", "--wait", AO_STORE=store)
        waiting = ao("submit", "agent.yaml", "-p", "1000", "--profile", "limited", AO_STORE=store)
        (run, _) = ao("runs", "--json", AO_STORE=store).document

        assert ended.exit_code == 1
        assert " is queued: profile limited is paused until " in waiting.stderr
        assert (run["status"], run["waits"][:34]) == ("queued", "profile limited is paused until 20")
        assert ao("limits", "remove", "--profile", "limited", AO_STORE=store).exit_code == 0
        followed = ao("events", waiting.stdout.strip(), "--follow", AO_STORE=store).stdout

    assert json.loads(followed.splitlines()[-1])["result_text"] == "done"


def test_a_named_schema_is_there_on_every_host(ao: Ao, other: Ao, store: str) -> None:
    schema = ao.write("review.json", '{"type": "object"}')
    assert ao("schema", "add", "review", str(schema), AO_STORE=store).exit_code == 0

    assert other("schema", "show", "review", AO_STORE=store).document == {"type": "object"}


def test_a_run_of_this_host_only_is_refused_where_a_server_is_named(ao: Ao, store: str) -> None:
    refused = ao("run", "agent.yaml", "-p", "hi", "--executor", "echo", AO_STORE=store)

    assert refused.exit_code == 2
    assert "Use `ao submit --wait`, or set AO_STORE=local." in " ".join(refused.stderr.split())


def test_a_server_that_is_not_there_is_named(ao: Ao) -> None:
    called = ao("schema", "list", "--store", "postgresql://ao:secret@127.0.0.1:1/db?connect_timeout=1")

    assert called.exit_code == 1
    assert "cannot use postgresql://127.0.0.1:1/db: " in called.stderr
    assert "secret" not in called.stderr


def test_another_kind_of_store_is_refused(ao: Ao) -> None:
    called = ao("runs", "--store", "mysql://host/db")

    assert called.exit_code == 2
    assert "expected `local` or postgresql://user@host/database" in called.stderr
