"""A host that is cut off in the middle of its runs: another one takes what may be taken, and each run ends once."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from ao_runner.runs.lost_runs import fail_lost_runs
from ao_runner.store.opening import StorePlace
from ao_runner.store.records import timestamp
from ao_runner.store.store import Store
from ao_runner.store.store_errors import StoreUnreachable
from ao_runner.store.worker_table import Offer
from tests.faults.fleet.hosts import Fleet, Host, await_end, broken_promises
from tests.faults.fleet.networks import SERVER, Network
from tests.faults.worker.working import until
from tests.postgres_server import PostgresServer, require_server

pytestmark = pytest.mark.slow  # each case has hosts with networks of their own, and lasts longer than a lease


@pytest.fixture
def network() -> Iterator[Network]:
    require_server()
    with Network() as network:
        yield network


@pytest.fixture
def database(network: Network) -> Iterator[tuple[str, str]]:
    """The URLs of a database, for this process and for the hosts of the network."""
    with PostgresServer(listen_addresses="*") as server:
        url = server.new_database()
        server.admit(f"{SERVER}/24")
        yield url, f"postgresql://ao@{SERVER}/{url.partition('@/')[2].partition('?')[0]}"


def running_on(store: Store, host: str) -> list[int]:
    """The number of the last stored event of each run that a host performs."""
    query = "SELECT last_seq FROM runs JOIN workers ON worker_id = owner WHERE status = 'running' AND host = ?"
    return [last_seq for (last_seq,) in store.fetch(query, (host,))]


def test_a_host_that_is_cut_off_loses_its_runs_and_its_late_writes_are_refused(
    network: Network, database: tuple[str, str], tmp_path: Path
) -> None:
    (url, url_of_hosts), fleet = database, Fleet(tmp_path / "fleet")
    options = ("--concurrency", "6", "--lease", "4")
    first, second = network.add_host(), network.add_host()
    cut_off, other = (Host(fleet, name, url_of_hosts, options) for name in ("cut-off", "other"))
    with StorePlace(tmp_path / "submitter", url).open() as store:
        runs = fleet.submit(store, ["200 25"] * 20)
        for number, host in ((first, cut_off), (second, other)):
            with network.inside(number):
                host.start()
        try:
            until(lambda: sum(seq > 20 for seq in running_on(store, "cut-off")) == 6, "it has no runs")
            network.cut(first)
            until(lambda: not running_on(store, "cut-off"), "its runs do not end")
            assert [pid for pid in fleet.processes() if network.has(first, pid)] == []
            await_end(store)
            kept = store.fetch("SELECT run_id, seq, line FROM events ORDER BY position")
            network.mend(first)
            until(lambda: cut_off.said("run was revoked") == 6, "its late events are not refused")
            exit_codes = [cut_off.leave(), other.leave()]
        finally:
            cut_off.kill()
            other.kill()
        assert exit_codes == [0, 0]
        assert store.fetch("SELECT run_id, seq, line FROM events ORDER BY position") == kept
    broken, outcomes = broken_promises(fleet, url, runs)
    assert broken == {}
    assert outcomes == {"attempt_lost": 6, "completed": 14}


def test_a_host_that_is_cut_off_in_a_transaction_holds_up_nobody(
    network: Network, database: tuple[str, str], tmp_path: Path
) -> None:
    (url, url_of_hosts), fleet = database, Fleet(tmp_path / "fleet")
    first = network.add_host()
    with StorePlace(tmp_path / "submitter", url).open() as store:
        (run_id,) = fleet.submit(store, ["1 0"])
        with ExitStack() as stack:
            with network.inside(first):
                cut_off = stack.enter_context(
                    StorePlace(tmp_path / "first", f"{url_of_hosts}?tcp_user_timeout=2000").open()
                )
            cut_off.queue.claim(Offer("owner", lease_seconds=1), 1, print)
            cut_off.queue.begin(run_id, 1, timestamp())
            stack.enter_context(cut_off.transaction())
            cut_off.events.add_of_attempt(run_id, 1, 1, [b"{}"])
            network.cut(first)
            until(lambda: fail_lost_runs(store) == [run_id], "its run does not end")
            with pytest.raises(StoreUnreachable):
                stack.close()
        assert store.events.last_seq(run_id) == 2
