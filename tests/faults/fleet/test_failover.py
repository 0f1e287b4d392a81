"""A primary that is gone in the middle of runs: its standby is promoted, and everything goes on there."""

import json
import os
import re
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import psycopg
import pytest

from ao_runner.store.opening import StorePlace
from ao_runner.store.store import Store
from tests.faults.fleet.hosts import SECONDS, Fleet, Host, await_end, broken_promises
from tests.faults.fleet.networks import SERVER, Network
from tests.faults.worker.working import until
from tests.postgres_server import PostgresServer, Standby, require_server
from tests.process.runner.postgres.acting import ao_at

pytestmark = pytest.mark.slow  # each case has a primary and a standby, and lasts longer than a lease


@pytest.fixture
def primary() -> Iterator[PostgresServer]:
    """A server that acknowledges what its standby has."""
    require_server()
    with PostgresServer(synchronous_standby_names="*") as primary:
        yield primary


@pytest.fixture
def standby(primary: PostgresServer) -> Iterator[Standby]:
    with Standby(primary) as standby:
        yield standby


def fail_over(primary: PostgresServer, standby: Standby, stopped: str) -> None:
    """Stop a process of the replication, kill the primary while a commit of `ao` waits, and promote the standby."""
    server = primary if stopped == "walsender" else standby
    with psycopg.connect(server.url("postgres"), autocommit=True) as watcher:
        found = watcher.execute("SELECT pid FROM pg_stat_activity WHERE backend_type = %s", (stopped,)).fetchone()
    assert found is not None
    os.kill(found[0], signal.SIGSTOP)
    waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND application_name = 'ao'"
    with psycopg.connect(primary.url("postgres"), autocommit=True) as watcher:
        until(lambda: watcher.execute(waiting).fetchone() != (0,), "no commit waits for the standby")
    primary.stop(signal.SIGKILL)
    if stopped == "walreceiver":
        os.kill(found[0], signal.SIGCONT)
    standby.promote()


@pytest.mark.parametrize("stopped", ["walsender", "walreceiver"])
def test_a_failover_to_a_synchronous_standby_loses_no_event_and_ends_no_run(
    stopped: str, primary: PostgresServer, standby: Standby, tmp_path: Path
) -> None:
    """The last commits on the primary have no answer: the standby lacks them, or has received them."""
    url, fleet, ao = standby.new_database(), Fleet(tmp_path / "fleet"), ao_at(tmp_path)
    hosts = [Host(fleet, name, url, ("--concurrency", "5")) for name in ("first", "second")]
    with StorePlace(tmp_path / "submitter", url).open() as store:
        runs = fleet.submit(store, ["100 25"] * 20)
        follow, known = ao.argv("events", runs[0], "--follow"), ao.environment() | {"AO_STORE": url}
        with (tmp_path / "followed").open("wb") as followed:
            follower = subprocess.Popen(follow, cwd=tmp_path, env=known, stdout=followed)
        try:
            for host in hosts:
                host.start()
            until(
                lambda: (tmp_path / "followed").stat().st_size and store.events.last_seq(runs[9]) > 20,
                "they do not run",
            )
            fail_over(primary, standby, stopped)
            submitted = ao("submit", "agent.yaml", "-p", "1 0", "--profile", str(fleet.executor), AO_STORE=url)
            runs += [submitted.stdout.strip()]
            await_end(store)
            exit_codes = [follower.wait(SECONDS), *(host.leave() for host in hosts)]
        finally:
            follower.kill()
            for host in hosts:
                host.kill()
    fleet.prompts[runs[-1]] = "1 0"
    broken, outcomes = broken_promises(fleet, url, runs)
    assert broken == {}
    assert outcomes == {"completed": 21}
    assert exit_codes == [0, 0, 0]
    lines = (tmp_path / "followed").read_text().splitlines()
    assert [json.loads(line)["seq"] for line in lines] == list(range(1, 103))
    assert ao("result", runs[-1], AO_STORE=url).stdout == "done\n"
    assert ao("store", "check", AO_STORE=url).exit_code == 0


def test_commits_wait_while_the_only_synchronous_standby_is_away_and_the_check_tells(
    primary: PostgresServer, standby: Standby, tmp_path: Path
) -> None:
    url, ao = primary.new_database(), ao_at(tmp_path)
    submit = ("submit", "agent.yaml", "-p", "hi", "--profile", "echo")
    assert ao(*submit, AO_STORE=url).exit_code == 0
    standby.stop()
    known = ao.environment() | {"AO_STORE": url}
    submitting = subprocess.Popen(ao.argv(*submit), cwd=tmp_path, env=known, stdout=subprocess.DEVNULL)
    try:
        waiting = "SELECT query FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND application_name = 'ao'"
        with psycopg.connect(primary.url("postgres"), autocommit=True) as watcher:
            until(lambda: watcher.execute(waiting).fetchall() == [("COMMIT",)], "no commit waits for the standby")
        checked, listed = ao("store", "check", AO_STORE=url), ao("runs", "--json", AO_STORE=url)
        assert checked.exit_code == 1
        assert "1 commits wait for a synchronous standby, which is probably away" in checked.stdout
        assert len(json.loads(listed.stdout)) == 1
        assert submitting.poll() is None
        standby.start()
        assert submitting.wait(SECONDS) == 0
    finally:
        submitting.kill()
    assert len(json.loads(ao("runs", "--json", AO_STORE=url).stdout)) == 2


def test_runs_outlive_a_primary_that_does_not_answer_any_more(tmp_path: Path) -> None:
    require_server()
    fleet = Fleet(tmp_path / "fleet")
    with Network() as network, ExitStack() as stack:
        first, second = network.add_host(), network.add_host()
        with network.inside(first):
            primary = stack.enter_context(PostgresServer(synchronous_standby_names="*", listen_addresses="*"))
        primary.admit(f"{SERVER}/24")
        with network.inside(second):
            standby = stack.enter_context(Standby(primary, listen_addresses="*"))
        database = standby.new_database().partition("@/")[2].partition("?")[0]
        servers = f"{network.address(first)},{network.address(second)}"
        url = f"postgresql://ao@{servers}/{database}?target_session_attrs=read-write&connect_timeout=3"
        host = Host(fleet, "host", url, ("--lease", "60"))
        with StorePlace(tmp_path / "submitter", url).open() as store:
            runs = fleet.submit(store, ["40 500"] * 4)
            host.start()
            try:
                until(lambda: all(store.events.last_seq(run) > 2 for run in runs), "they do not run")
                network.silence(first)
                standby.promote()
                await_end(store)
                exit_code = host.leave()
            finally:
                host.kill()
        broken, outcomes = broken_promises(fleet, url, runs)
    assert (exit_code, broken, outcomes) == (0, {}, {"completed": 4})


def await_replicated(primary: PostgresServer) -> int:
    """Wait until the standby has all that was committed up to now, and return the process that sends it."""
    with psycopg.connect(primary.url("postgres"), autocommit=True) as watcher:
        now = watcher.execute("SELECT pg_current_wal_lsn()").fetchone()
        query = "SELECT replay_lsn >= %s FROM pg_stat_replication"
        until(lambda: watcher.execute(query, now).fetchone() == (True,), "the standby does not receive it")
        found = watcher.execute("SELECT pid FROM pg_stat_replication").fetchone()
    assert found is not None
    return int(found[0])


def told_of(hosts: Sequence[Host], words: str) -> set[str]:
    """Return the runs of which the log of a host has said something."""
    lines = [line for host in hosts for line in host.log.read_text().splitlines() if words in line]
    return {run_id for line in lines for run_id in re.findall("run_[0-9a-f]+", line)}


def lose_the_last_seconds(
    fleet: Fleet, store: Store, primary: PostgresServer, standby: Standby
) -> dict[str, list[str]]:
    """Fail over to a standby that lacks the last seconds, and return all runs by what of them is lost."""
    runs = {"nothing": fleet.submit(store, ["2 1"] * 5)}
    await_end(store)
    runs |= {"events": fleet.submit(store, ["700 25"] * 5), "end": fleet.submit(store, ["160 25"] * 15)}
    begun = [*runs["events"], *runs["end"]]
    until(lambda: all(store.events.last_seq(run) > 2 for run in begun), "they do not run")
    runs["claim"] = fleet.submit(store, ["300 25"] * 10)
    os.kill(await_replicated(primary), signal.SIGSTOP)
    until(lambda: all(store.events.last_seq(run) > 5 for run in runs["claim"]), "they are not claimed")
    runs["all"] = fleet.submit(store, ["300 25"] * 5)
    until(lambda: all(store.events.last_seq(run) > 5 for run in runs["all"]), "they are not claimed")
    primary.stop(signal.SIGKILL)
    standby.promote()
    store.runs.are_running()  # waits for the new primary
    runs["nothing"] += fleet.submit(store, ["2 1"] * 5)
    await_end(store)
    return runs


def test_a_failover_to_an_asynchronous_standby_tells_what_was_lost_and_goes_on(tmp_path: Path) -> None:
    require_server()
    with PostgresServer() as primary, Standby(primary) as standby:
        url, fleet = standby.new_database(), Fleet(tmp_path / "fleet")
        hosts = [Host(fleet, name, url, ("--concurrency", "10")) for name in ("first", "second")]
        try:
            for host in hosts:
                host.start()
            with StorePlace(tmp_path / "submitter", url).open() as store:
                lost = lose_the_last_seconds(fleet, store, primary, standby)
            exit_codes = [host.leave() for host in hosts]
        finally:
            for host in hosts:
                host.kill()
        broken, outcomes = broken_promises(fleet, url, [run for runs in lost.values() for run in runs])

    assert exit_codes == [0, 0]
    assert outcomes == {"completed": 25, "attempt_lost": 15}
    assert set(broken.pop("a submitted run is there")) == set(lost["all"])
    assert told_of(hosts, "the store does not know it") == set(lost["all"])
    assert told_of(hosts, "which it does not") == set(lost["end"])
    again = set(broken.pop("an executor is started once for a run", ()))
    assert told_of(hosts, "another worker performs the run again") == again
    assert again <= set(lost["claim"])
    gaps = ("events have consecutive numbers", "messages are there in their order", "a completed run has all messages")
    assert [set(broken.pop(gap)) for gap in gaps] == [{*lost["events"], *lost["claim"]} - again] * 3
    assert told_of(hosts, "the server lost events") == {*lost["events"], *lost["claim"]} - again
    assert broken == {}
