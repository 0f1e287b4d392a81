"""Agents that send what cannot be read: each run ends once, by itself, and in the words of the protocol."""

import json
import re
import socketserver
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from shlex import quote
from typing import Any

import pytest

from ao_protocol.errors import RUNNER_ONLY, ErrorType
from ao_protocol.events import check_event
from ao_protocol.framing import decode_object
from ao_protocol.lifecycle import RunLifecycle
from tests.conftest import ROOT
from tests.faults.executors import forked_executors, lying_agent
from tests.faults.executors.lying_agent import Lie, paths_in
from tests.process.executors.driver import ExecutorProcess, installed, invocation, run

DEEP = 100_000
ENDS_SECONDS = 50.0
PYTHON = re.compile(r"\w+(Error|Exception|Warning)\b|Traceback|NoneType|unhashable|\b(dict|list|None|int|str)\b")
"""What a message has if it is made of a Python exception."""


def ids(form: str, *values: str) -> dict[str, str]:
    return {f"id {value[:8]} in {form[:20]}": form.replace("VALUE", value) for value in values}


UNREADABLE = {
    **ids('{"id":VALUE,"result":{}}', "[1]", "{}", "true", "null", '"1"', "1.5", "99", "-1", "NaN", "9" * 5000),
    **ids('{"id":VALUE,"method":"session/request_permission","params":{}}', "[]", "{}", "false", "null"),
    "no result": '{"id":ID}',
    "error for nobody": '{"id":null,"error":{"code":-32700,"message":"what?"}}',
    "empty error": '{"id":ID,"error":{}}',
    "text as error": '{"id":ID,"error":"no"}',
    "odd error": '{"id":ID,"error":{"code":"x","message":[null],"data":{"a":[]}}}',
    "list as result": '{"id":ID,"result":[1,2]}',
    "text as result": '{"id":ID,"result":"yes"}',
    "number as method": '{"id":5,"method":6}',
    "list as params": '{"method":"session/update","params":[1]}',
    "text as params": '{"id":9,"method":"item/started","params":"x"}',
    "half a message": '{"id":ID,"resu',
    "two messages": '{"id":ID,"result":{}}{"id":ID,"result":{}}',
    "batch": '[{"id":ID,"result":{}}]',
    "open arrays": '{"id":ID,"result":' + "[" * DEEP,
    "open objects": '{"a":' * DEEP,
    "deep result": f'{{"id":ID,"result":{"[" * DEEP}{"]" * DEEP}}}',
    "900 levels": f'{{"id":ID,"result":{"[" * 900}{"]" * 900}}}',
    "comma too much": '{"id":ID,"result":{},}',
    "endless noise": "x\n" * 20_000,
    "endless line": '{"a":"' + "x" * 70_000_000,
}
"""Lines in place of a message, after which the agent waits."""
ODD = {
    "not UTF-8": '{"method":"x/y","params":{"a":"\udcff\udcfe"}}',
    "not a number": '{"method":"x/y","params":{"a":[NaN,Infinity,-Infinity,1e999]}}',
    "huge integer": '{"method":"x/y","params":{"a":' + "9" * 5000 + "}}",
    "half a surrogate": '{"method":"\\ud800","params":{"\\udc00":"\\ud800"}}',
    "key twice": '{"method":"x/y","method":"x/z","params":{"a":1,"a":2}}',
    "banner": 'Loading… { a: 1 }\n[1]\nnull\n\n42\n"x"\n{}\n[]\n{"level":"info"}\n\x00\x1b[2J',
    "byte order mark": '\ufeff{"method":"x/y"}',
    "unknown request": '{"id":"q","method":"x/y","params":null}',
    "large id": '{"id":123456789012345678901234567890,"method":"x/y"}',
    "raw control character": '{"method":"x/y","params":{"a":"\t"}}',
}
"""Lines that are no fault of the run: the message follows."""
STDERR = {
    "nothing": b"",
    "no text": bytes(range(256)) * 20,
    "long line": b"x" * 2_000_000,
    "number as fields": b'{"fields": 3}\n',
    "list": b"[]\n",
    "list as message": b'{"fields":{"message":[1]}}\n',
    "deep": b"[" * DEEP + b"\n",
    "odd retries": b"retrying sampling request (1/1 in 1.2.3s) retrying sampling request (2/2 in "
    + b"9" * 999
    + b"s)\n",
}
STAGES = {
    "acp": ("initialize", "session/new", "chunk", "session/prompt"),
    "claude": ("initialize", "init", "said", "result"),
    "codex": ("initialize", "thread/start", "tool", "completed"),
}
"""The messages in place of which, or before which, a line is sent: each lie at one of them, in turns."""
VALUES: tuple[Any, ...] = (None, 7, "", [], {}, [7], {"type": []}, True, 10**300, -1, "\ud800", [[]] * 2, 1.5)
"""Values for fields of the agent's messages, in turns."""
MESSAGES: Mapping[str, Mapping[str, tuple[tuple[str, ...], Any]]] = {
    "acp": {
        **{at: ((), document) for at, document in lying_agent.ACP_RESULTS.items()},
        **{at: (("update",), document) for at, document in lying_agent.ACP_UPDATES.items()},
        "permission": ((), lying_agent.ACP_PERMISSION),
    },
    "claude": {"initialize": ((), lying_agent.CLAUDE_ANSWER)}
    | {at: ((), document) for at, document in lying_agent.CLAUDE_MESSAGES.items()},
    "codex": {
        **{at: ((), document) for at, document in lying_agent.CODEX_RESULTS.items()},
        **{at: ((), document) for at, (_, document) in lying_agent.CODEX_NOTIFICATIONS.items()},
        **{at: ((), document) for at, (_, document) in lying_agent.CODEX_APPROVALS.items()},
    },
}


def lines_of(dialect: str) -> Iterator[tuple[str, Lie]]:
    for number, (name, line) in enumerate(UNREADABLE.items()):
        yield name, {"at": STAGES[dialect][number % 4], "line": line}
    for number, (name, line) in enumerate(ODD.items()):
        typed = line.replace("\n{}\n", "\n").replace('{"', '{"type":"x","')  # as each object of Claude is
        written = typed if dialect == "claude" else line
        yield name, {"at": STAGES[dialect][number % 4], "line": written, "goes_on": True}
    for number, (name, told) in enumerate(STDERR.items()):
        yield name, {"at": STAGES[dialect][number % 4], "stderr": told.decode("latin-1")}
    yield "closes stdout", {"at": STAGES[dialect][2], "closes": 1}
    if dialect != "claude":  # the SDK waits for it
        yield "closes stdin", {"at": STAGES[dialect][3], "closes": 0}


def fields_of(dialect: str) -> Iterator[tuple[str, Lie]]:
    number = 0
    for at, (place, document) in MESSAGES[dialect].items():
        for path in paths_in(document):
            number += 1
            if number % 2 == 0:
                yield (
                    f"{at} {path} {number}",
                    {"at": at, "path": [*place, *path], "value": VALUES[number % len(VALUES)]},
                )


def work_for(dialect: str, lie: Lie, place: Path, **fields: object) -> dict[str, object]:
    """Write an agent with a lie into a folder; return an invocation for it."""
    argv = [sys.executable, "-S", "-E", lying_agent.__file__, dialect, str(place / "lie.json")]
    (place / "lie.json").write_text(json.dumps(lie), encoding="utf-8")
    (place / "agent").write_text(f"#!/bin/sh\nexec {' '.join(map(quote, argv))}\n", encoding="utf-8")
    (place / "agent").chmod(0o755)
    setting: Any = {"acp": "command", "claude": "cli_path", "codex": "codex_path"}[dialect]
    config = {setting: [str(place / "agent")] if dialect == "acp" else str(place / "agent")}
    return invocation(project_dir=str(place), executor_config=config, **fields)


def perform(dialect: str, lies: Mapping[str, Lie], folder: Path) -> dict[str, list[dict[str, Any]]]:
    """Let an agent of each lie work for a run; return the events of each run, checked one by one."""
    for number, lie in enumerate(lies.values()):
        place = folder / str(number)
        place.mkdir(parents=True)
        (place / "invocation.json").write_text(json.dumps(work_for(dialect, lie, place)) + "\n", encoding="utf-8")
    forked = [sys.executable, "-m", forked_executors.__name__, dialect, str(folder)]
    subprocess.run(forked, cwd=ROOT, check=True, timeout=300, env={"HOME": str(folder.parent), "PATH": "/usr/bin:/bin"})
    return {name: list(events_in(folder / str(number))) for number, name in enumerate(lies)}


def events_in(place: Path) -> Iterator[dict[str, Any]]:
    lifecycle = RunLifecycle(None, None)
    for line in (place / "events.jsonl").read_bytes().splitlines():
        event: dict[str, Any] = decode_object(line)
        check_event(event)
        lifecycle.receive(event)
        yield event
    lifecycle.end()


def faults_of(events: list[dict[str, Any]]) -> str:
    """Return what is wrong with the end of a run; empty if nothing is."""
    end = events[-1]
    if end["event_type"] == "result":
        return ""
    error = end["error"]
    if error["type"] not in set(ErrorType) - RUNNER_ONLY - {ErrorType.CANCELLED}:
        return f"type {error['type']}"
    return error["message"] if PYTHON.search(error["message"]) or error["origin"] == "executor" else ""


@pytest.mark.parametrize("dialect", STAGES)
def test_a_line_that_cannot_be_read_ends_the_run_and_an_odd_one_does_not(dialect: str, tmp_path: Path) -> None:
    ended = perform(dialect, dict(lines_of(dialect)), tmp_path / "runs")

    assert {name: told for name, events in ended.items() if (told := faults_of(events))} == {}
    assert {name for name, events in ended.items() if events[-1]["event_type"] == "result"} == set(ODD)


@pytest.mark.slow  # the test above sends each line of a dialect, but not each type for each field
@pytest.mark.parametrize("dialect", STAGES)
def test_no_value_of_a_field_ends_a_run_in_words_of_python(dialect: str, tmp_path: Path) -> None:
    ended = perform(dialect, dict(fields_of(dialect)), tmp_path / "runs")

    assert {name: told for name, events in ended.items() if (told := faults_of(events))} == {}


@pytest.mark.parametrize(("dialect", "at"), [("acp", "permission"), ("codex", "approval")])
def test_a_lie_while_a_person_is_asked_ends_the_run(dialect: str, at: str, tmp_path: Path) -> None:
    method, params = ("session/request_permission", lying_agent.ACP_PERMISSION)
    if dialect == "codex":
        method, params = lying_agent.CODEX_APPROVALS[at]
    lines = [json.dumps({"id": "asks", "method": method, "params": params}), '{"id":[1],"result":{}}']
    lie: Lie = {"at": at, "line": "\n".join(lines)}
    document = work_for(dialect, lie, tmp_path, control={"stdin": "open", "input": True})
    with ExecutorProcess([installed(f"ao-{dialect}-exec")]) as executor:
        executor.write_line(document)
        executor.read_until("input_requested")
        ended = executor.finish(ENDS_SECONDS)

    assert ended.types[-2:] == ["tool_finished", "failure"]
    assert "[1]" in ended.error["message"]


def test_mcp_servers_that_lie_are_unavailable_in_words_of_the_protocol(tmp_path: Path) -> None:
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Nonsense) as http:
        threading.Thread(target=http.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{http.server_address[1]}/"
        servers: dict[str, dict[str, Any]] = {
            f"h{number}": {"type": "http", "url": f"{url}{number}"} for number in range(len(Nonsense.ANSWERS))
        }
        for number, line in enumerate(('{"id":[1],"result":{}}', '{"a":' * DEEP, '[{"id":1}]', "x\n" * 20_000, "{")):
            (tmp_path / str(number)).write_text(line + "\n", encoding="utf-8")
            ends = "exec cat" if line != "{" else "exit"
            servers[f"p{number}"] = {"command": "sh", "args": ["-c", f"cat {number}; {ends}"]}
        optional = {name: {**server, "required": False} for name, server in servers.items()}
        document = work_for("acp", {}, tmp_path, agent_blueprint={"name": "a", "mcp_servers": optional})
        ended = run([installed("ao-acp-exec")], document)
        http.shutdown()

    assert ended.terminal["event_type"] == "result"
    told = [event["message"] for event in ended.of_type("log")]
    assert {message.split()[2] for message in told} == set(servers)
    assert [message for message in told if PYTHON.search(message)] == []


class Nonsense(socketserver.StreamRequestHandler):
    """Answers what is no HTTP."""

    ANSWERS = (b"", b"nonsense\r\n\r\n", b"HTTP/1.1 two\r\n\r\n", b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 500 + b"\r\n")

    def handle(self) -> None:
        number = int(self.rfile.readline().split()[1].lstrip(b"/"))
        self.wfile.write(self.ANSWERS[number])
