"""Attachments of runs: from a command line or a program to the executor, and never into a list."""

import base64
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest

from ao_protocol.wire import JsonObject
from ao_runner.agents import Agent, AgentFailed, Attachment
from ao_runner.profiles import Profile
from ao_runner.runs.attaching import MediaTypeUnknown, attachment_of
from ao_runner.runs.contract_loop import asked_again
from ao_runner.runs.journal import StoredJournal
from ao_runner.runs.run import perform_run
from ao_runner.runs.run_request import StopRequests
from tests.postgres_server import PostgresServer
from tests.process.runner.cli.calling import Ao, miniature
from tests.process.runner.performing import MINIATURES, Follower
from tests.process.runner.warm.test_warm import House, in_house

TELLER: Final = "shows_its_invocation_under_contracts"
BYTES: Final = b"the bytes of a file"
DATA: Final = base64.b64encode(BYTES).decode()
NOTE: Final[JsonObject] = {"name": "note.txt", "media_type": "text/plain", "data": DATA}


@pytest.fixture
def ao(tmp_path: Path) -> Ao:
    made = Ao(tmp_path)
    made.write("agent.yaml", "name: agent\n")
    (tmp_path / "files").mkdir()
    for name in ("note.txt", "dot.png", "data.unknown-type"):
        (tmp_path / "files" / name).write_bytes(BYTES)
    return made


def test_files_are_named_by_relative_paths_and_typed_by_their_suffixes(ao: Ao) -> None:
    files = ("--attach", "files/dot.png", "--attach", "files/data.unknown-type:TEXT/markdown")
    called = ao("run", "agent.yaml", "-p", "hi", "--executor", miniature(TELLER), *files)

    assert called.exit_code == 0, called.stderr
    invocation = json.loads(called.stdout)
    assert invocation["requires"] == ["attachments"]
    assert invocation["attachments"] == [
        {"name": "dot.png", "media_type": "image/png", "path": f"{ao.folder}/files/dot.png"},
        {"name": "data.unknown-type", "media_type": "text/markdown", "path": f"{ao.folder}/files/data.unknown-type"},
    ]


@pytest.mark.parametrize(
    ("file", "words"),
    [
        (
            "files/data.unknown-type",
            "the suffix of files/data.unknown-type says no media type; name it: --attach files/data.unknown-type:TYPE",
        ),
        ("files/gone.png", "'files/gone.png' does not exist"),
        ("files/note.txt:a b/c", "'a b/c' is not a media type such as application/pdf"),
        ("files", "'files' is a directory"),
    ],
)
def test_a_file_that_cannot_be_attached_is_a_usage_error(ao: Ao, file: str, words: str) -> None:
    called = ao("run", "agent.yaml", "-p", "hi", "--executor", miniature(TELLER), "--attach", file)

    assert called.exit_code == 2
    assert words in " ".join(called.stderr.split())
    assert ao("runs", "--json").document == []


def test_lists_and_records_do_not_print_the_bytes(ao: Ao) -> None:
    agent: Agent = Agent({"name": "agent"}, profile=miniature("answers_at_once"), home=ao.folder / "ao-home")
    with pytest.raises(AgentFailed, match="takes no attachments of the type text/plain; it takes none"):
        agent.run("hi", attachments=[Attachment.model_validate(NOTE)])

    printed = [ao(*arguments).stdout for arguments in (
        ("runs", "--json"), ("sessions", "--json"), ("events", "last"), ("result", "last", "--record"),
    )]  # fmt: skip
    assert not [text for text in printed if DATA in text]
    assert json.loads(printed[-1])["attachments"] == [{"name": "note.txt", "media_type": "text/plain", "bytes": 19}]


def test_a_program_attaches_paths_and_bytes(ao: Ao) -> None:
    agent: Agent = Agent({"name": "agent"}, profile=miniature(TELLER), home=ao.folder / "ao-home")

    answer = agent.run("hi", attachments=[ao.folder / "files/dot.png", Attachment.model_validate(NOTE)])

    path = str(ao.folder / "files/dot.png")
    told = json.loads(str(answer.value))
    assert told["attachments"] == [{"name": "dot.png", "media_type": "image/png", "path": path}, NOTE]
    with pytest.raises(MediaTypeUnknown):
        attachment_of(Path("archive.tar.gz"))  # it is no tar


SHOWS_ITS_TURN = f"""#!{sys.executable}
import json, sys
sys.path.append({str(MINIATURES)!r})
from speaking import Speaker
speaker = Speaker(multi_turn=True, resume=True, attachments={{"media_types": ["text/*"]}})
speaker.start()
speaker.result(json.dumps(speaker.invocation))
while line := speaker.read_line():
    turn = json.loads(line)
    speaker.seq, speaker.invocation = 0, {{**speaker.invocation, **turn}}
    speaker.start()
    speaker.result(json.dumps(turn))
"""


async def performed(house: House, session: Any, mode: str, *attachments: JsonObject) -> tuple[Any, str]:
    """Perform a run with attachments; return its result or failure, and how its process was launched."""
    order = house.order(session, mode, "hi")
    order = replace(order, run=replace(order.run, attachments=attachments))
    journal = StoredJournal(house._store, order.run, Follower(), house._owner)  # of the tests
    terminal = await perform_run(order, journal, StopRequests(), house.launcher)
    record = house._store.runs.find_record(order.run.run_id)
    assert record is not None
    return terminal, record.launched


def test_a_turn_has_the_attachments_of_its_run_and_no_others(tmp_path: Path) -> None:
    executor = tmp_path / "ao-turns-exec"
    executor.write_text(SHOWS_ITS_TURN)
    executor.chmod(0o755)

    async def story(house: House) -> None:
        session = house.session("ses_1")
        first, _ = await performed(house, session, "start", NOTE)
        refused, how = await performed(house, session, "resume", {**NOTE, "media_type": "image/png"})
        second, launched = await performed(house, session, "resume")
        third, still = await performed(house, session, "resume", NOTE)

        assert json.loads(first.result_text)["attachments"] == [NOTE]
        assert (refused.error.type, how) == ("unsupported_capability", "cold")
        assert "attachments" not in json.loads(second.result_text)
        assert json.loads(third.result_text)["attachments"] == [NOTE]
        assert (launched, still) == ("kept", "kept")

    in_house(tmp_path, Profile(name="x", executor=str(executor), lifecycle="persistent"), story)


def test_who_is_asked_again_has_the_files_already() -> None:
    invocation: JsonObject = {"mode": "start", "prompt": "hi", "attachments": [NOTE], "requires": ["attachments"]}
    again = asked_again(invocation, "s_1", "Again.")
    assert again.keys() == {"mode", "prompt", "parameters", "executor_session_id"}


def test_a_store_of_many_hosts_is_given_the_bytes(ao: Ao, postgres: PostgresServer) -> None:
    store = postgres.new_database()
    called = ao(
        "submit", "agent.yaml", "-p", "hi", "--profile", miniature(TELLER), "--attach", "files/note.txt",
        AO_STORE=store,
    )  # fmt: skip
    assert called.exit_code == 0, called.stderr
    record = ao("result", "last", "--record", AO_STORE=store)
    assert record.document["attachments"] == [{"name": "note.txt", "media_type": "text/plain", "bytes": len(BYTES)}]
