"""Whatever an earlier release has stored, this version reads: runs, sessions, schemas, outboxes, profiles, tokens.

Each folder beside this file holds the home of a user of that release, and what its commands said about it; `postgres`
in it has a home whose store is a database. The `making.py` of that release made it, and it is never made again.
"""

import json
import sysconfig
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest

from ao_executors import VERSION
from ao_runner.store.store_file import FILE_NAME as STORE
from ao_server.gate import tokens_of
from tests.postgres_server import PostgresServer, require_server
from tests.process.runner.cli.calling import NO_VARIABLES
from tests.process.server.conftest import Served
from tests.upgrade.making import DATABASE, DUMP, INSTALLED_AT, PROFILES, User, move_executors, on_new_database
from tests.upgrade.public_names import public_names

FOLDER = Path(__file__).parent
RELEASES = sorted(path.parent for path in FOLDER.glob("*/names.json"))
HOMES = sorted(path.parent for path in FOLDER.glob("**/home.tar.gz"))
HERE = sysconfig.get_path("scripts")


@dataclass(frozen=True)
class Upgraded:
    """The home of an earlier release under this version."""

    ao: User
    ids: dict[str, str]
    told: dict[str, str]

    @property
    def home(self) -> Path:
        return self.ao.folder / "ao-home"

    def says(self, *command: str) -> Any:
        called = self.ao(*command)
        assert called.exit_code == 0, called
        return documents(called.stdout.replace(HERE, INSTALLED_AT))


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    require_server()
    with PostgresServer() as started:
        yield started


@pytest.fixture(params=HOMES, ids=lambda path: str(path.relative_to(FOLDER)))
def upgraded(request: pytest.FixtureRequest, tmp_path: Path) -> Upgraded:
    with tarfile.open(request.param / "home.tar.gz") as packed:
        packed.extractall(tmp_path)  # noqa: S202  # our own file
    variables = NO_VARIABLES
    if (dump := tmp_path / DUMP).exists():
        server = request.getfixturevalue("server")
        variables = on_new_database(server)
        with psycopg.connect(server.url(DATABASE)) as database:
            database.execute(dump.read_bytes().replace(INSTALLED_AT.encode(), HERE.encode()))
    else:
        move_executors(tmp_path / "ao-home" / STORE, INSTALLED_AT, HERE)
    told = json.loads((request.param / "told.json").read_text())
    return Upgraded(User(tmp_path, variables), told["ids"], told["answers"])


def documents(text: str) -> Any:
    """Return JSON, or the documents of JSON Lines."""
    try:
        return json.loads(text)
    except ValueError:
        return [json.loads(line) for line in text.splitlines()]


def missing(told: Any, now: Any, where: str = "$") -> list[str]:
    """Return what was told and is told no more, or otherwise. What is new is no matter."""
    if isinstance(told, dict) and isinstance(now, dict):
        lost = [f"{where}.{name} is gone" for name in told if name not in now]
        both = [missing(told[name], now[name], f"{where}.{name}") for name in told if name in now]
        return [*lost, *(one for found in both for one in found)]
    if isinstance(told, list) and isinstance(now, list) and len(told) == len(now):
        return [one for n, pair in enumerate(zip(told, now, strict=True)) for one in missing(*pair, f"{where}[{n}]")]
    return [] if told == now else [f"{where} was {told!r}, and is {now!r}"]


def test_this_version_is_among_the_releases() -> None:
    assert VERSION in {path.name for path in RELEASES}


@pytest.mark.parametrize("release", RELEASES, ids=lambda path: path.name)
def test_every_public_name_is_there_with_its_parameters(release: Path) -> None:
    assert missing(parameters_in(json.loads((release / "names.json").read_text())), parameters_in(public_names())) == []


def parameters_in(names: dict[str, dict[str, list[str]]]) -> Any:
    return {module: {name: dict.fromkeys(given) for name, given in of.items()} for module, of in names.items()}


def test_commands_say_what_they_said(upgraded: Upgraded) -> None:
    for command, told in upgraded.told.items():
        assert missing(documents(told), upgraded.says(*command.split())) == [], command
    for name in PROFILES:
        assert upgraded.ao("executors", "profile", name).exit_code == 0


def test_runs_go_on_where_they_were(upgraded: Upgraded) -> None:
    ids, ao = upgraded.ids, upgraded.ao
    (request,) = upgraded.says("inputs", "--json")
    assert ao("answer", request["run_id"], request["request_id"], "--allow").exit_code == 0

    first_of_batch = upgraded.says("results", ids["batch"], "--format", "json")[0]["run_id"]
    resumed = ao("submit", "--session", first_of_batch, "-p", "Once more").stdout.strip()
    assert ao("worker", "--until-idle").exit_code == 0

    assert ao("result", ids["in the outbox"]).stdout == "from the outbox\n"
    assert ao("result", ids["queued"]).stdout == "hello\n"
    assert ao("result", upgraded.says("result", ids["asks"], "--record")["session_id"]).stdout == "cleaned\n"
    assert ao("result", resumed).stdout == "hello again\n"
    kinds = [event["event_type"] for event in upgraded.says("events", ids["in the outbox"])]
    assert (kinds[0], kinds[-1], kinds.count("result")) == ("run_started", "result", 1)


def test_a_server_has_its_agents_webhooks_and_tokens(upgraded: Upgraded) -> None:
    with Served(upgraded.home, ("--no-worker", "--token"), dict(upgraded.ao.variables)) as server:
        server.client.headers["authorization"] = f"Bearer {tokens_of(upgraded.home)['client']}"
        assert server.client.get("/agents/greeter").json()["system_prompt"] == "Greet."
        assert server.client.get("/webhooks").json()["webhooks"][0]["events"] == ["run.failed"]
        assert len(server.client.get("/runs").json()["runs"]) == len(upgraded.says("runs", "--json"))
    assert "anna" in upgraded.ao("serve", "token", "list").stdout
