"""The password in the address of a store is in no argument of a process, no output and no page."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.postgres_server import PostgresServer, require_server
from tests.process.runner.cli.calling import Ao
from tests.process.server.conftest import Served, wait_for

PASSWORD = "canaryPw42"


@pytest.fixture(scope="module")
def store() -> Iterator[str]:
    require_server()
    with PostgresServer() as server:
        yield server.new_database().replace("//ao@", f"//ao:{PASSWORD}@")


def arguments_of_children(pid: int) -> list[str]:
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [Path(f"/proc/{child}/cmdline").read_bytes().decode().replace("\0", " ") for child in children]


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="there is no /proc to look for arguments in")
def test_the_worker_beside_a_server_gets_the_store_in_its_environment(store: str, tmp_path: Path) -> None:
    with Served(tmp_path / "home", environ={"AO_STORE": store}) as served:
        told = wait_for(lambda: [line for line in arguments_of_children(served.process.pid) if " worker " in line])
        pages = [served.client.get(page).text for page in ("/ui", "/ui/workers", "/openapi.json")]
    log = (tmp_path / "home-serve.log").read_text()

    assert PASSWORD not in "".join([*told, *pages, log])
    assert "serving postgresql://" in log


def test_no_command_shows_the_password(store: str, tmp_path: Path) -> None:
    ao = Ao(tmp_path)
    ao.write("agent.yaml", "name: agent\n")
    wrong = [store.replace("//ao:", "//nobody:"), store.replace(PASSWORD, f"{PASSWORD}/")]
    for arguments, urls in (
        (["submit", "agent.yaml", "-p", "hi", "--profile", "echo"], [store]),
        (["worker", "--until-idle"], [store]),
        (["worker", "--until-idle", "--log-format", "console"], [store]),
        (["result", "last", "--record"], [store, *wrong]),
        (["top", "--once"], [store, *wrong]),
        (["doctor", "echo"], [store, *wrong]),
        (["store", "check", "--json"], [store, *wrong]),
        (["store", "migrate"], [store, *wrong]),
        (["limits"], [store, *wrong]),
    ):
        for url in urls:
            called = ao(*arguments, AO_STORE=url)

            assert PASSWORD not in called.stdout + called.stderr, arguments
            assert (called.exit_code == 0) == (url == store), arguments
