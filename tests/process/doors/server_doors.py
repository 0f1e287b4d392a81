"""The doors of a server: the API, its pages, and its tools for agents."""

import base64
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar, Final
from urllib.parse import quote

import httpx

from tests.process.doors.playing import OF_A_SESSION, OWN_IDS, SERVERS_SCRIPT, Ask, Door
from tests.process.doors.spelling import MEMBERS, document_of, placed
from tests.process.server.conftest import Served


class OfServer(Door):
    """A door of a server without a worker."""

    names = MEMBERS
    not_played: ClassVar = {
        "an unknown profile": "a worker elsewhere may have it",
        "a further run by an unknown profile": "a worker elsewhere may have it",
        "a folder that is not there": "it is a folder of the worker's host",
        "a file that is not there": "it is a file of the worker's host",
    }

    @contextmanager
    def opened(self, folder: Path) -> Iterator[Ask]:
        with self.serving(folder) as server:
            yield lambda asked: self.ask(server, asked, folder)

    @staticmethod
    def serving(folder: Path) -> Served:
        """Return a server, not entered yet, on the store of a folder."""
        return Served(folder / "home", ("--no-worker",), folder=folder / "work")

    def ask(self, server: Served, asked: Mapping[str, Any], folder: Path) -> str | None:
        """Ask a server for one run."""
        raise NotImplementedError


def posted(server: Served, path: str, document: object, status: int = 201) -> str | None:
    """Post a document, and return why it was refused."""
    content = json.dumps(document).encode()
    answer = server.client.post(path, content=content, headers={"content-type": "application/json"})
    if answer.status_code == status:
        return None
    assert 400 <= answer.status_code < 500, (answer.status_code, answer.text[:1000])
    problem = answer.json()
    return said(problem.get("errors", problem))


def said(detail: Any) -> str:
    """Return a refusal of the API as a text, with each place in dots."""
    places = [".".join(one["loc"][1:]) for one in detail] if isinstance(detail, list) else []
    return "\n".join([*places, json.dumps(detail, ensure_ascii=False)])


class Api(OfServer):
    lacks = {
        **SERVERS_SCRIPT,
        "run_id": "the header Idempotency-Key makes a request repeatable",
        "executor_config": "a client of the server may not widen what an agent may do; its own settings hold",
    }

    def ask(self, server: Served, asked: Mapping[str, Any], folder: Path) -> str | None:
        return posted(server, "/runs", document_of(asked, folder))


class Batch(OfServer):
    lacks = Api.lacks

    def ask(self, server: Served, asked: Mapping[str, Any], folder: Path) -> str | None:
        return posted(server, "/runs/batch", {"runs": [document_of(asked, folder)]})


ONLY_BYTES: Final = dict.fromkeys(
    (
        "a file", "several files", "a further run with a file", "a file that is not there", "too many files",
        "a file of no media type", "an attachment without a place",
    ),
    "a form sends bytes",
)  # fmt: skip


class Dialog(OfServer):
    """The page that starts an agent. It is for people, and offers what they choose most."""

    lacks = dict.fromkeys(
        (
            "session", "session_id", "run_id", "executor_config", "output_schema", "output_schema_options", "no_schema",
            "keep_rejected", "timeout_seconds", "not_before", "requeue", "metadata", "requires", "parent_session_id",
            "execution_mode", "model_script", "labels",
        ),
        "the form offers what people choose most",
    )  # fmt: skip
    not_played = {
        **OfServer.not_played,
        "no agent": "the page is that of an agent",
        "an unknown agent": "the page is that of an agent",
        "parameters that are a list": "the form makes them an object",
        "parameters that do not fit": "the page says at the field that it is required",
        "no prompt": "the page says at the field that it is required",
        **ONLY_BYTES,
    }

    def ask(self, server: Served, asked: Mapping[str, Any], folder: Path) -> str | None:
        given = {name: placed(asked[name], folder) for name in ("profile", "project_dir", "priority") if name in asked}
        given |= {"output_schema_name": asked["output_schema_name"]} if "output_schema_name" in asked else {}
        form = {**given, "raw": json.dumps(asked["parameters"])}
        path = f"/ui/agents/{quote(asked['agent'])}/run"
        return sent(server, path, form, asked)


class ResumePage(OfServer):
    """The form of a session's page: a prompt."""

    lacks = {
        **OF_A_SESSION,
        **{name: "the form is a prompt" for name in Dialog.lacks if name not in {"session", *OF_A_SESSION}},
        **dict.fromkeys(("profile", "priority", "output_schema_name"), "the form is a prompt"),
    }
    not_played = {**OfServer.not_played, **ONLY_BYTES}

    def ask(self, server: Served, asked: Mapping[str, Any], folder: Path) -> str | None:
        path, form = f"/ui/sessions/{quote(asked['session'])}/resume", {"prompt": asked["parameters"]["prompt"]}
        return sent(server, path, form, asked)


def sent(server: Served, path: str, form: Mapping[str, str], asked: Mapping[str, Any]) -> str | None:
    """Send a form with the files of a request, and return why it was refused."""
    files = [
        ("attachments", (one["name"], base64.b64decode(one["data"]), one["media_type"]))
        for one in asked.get("attachments", ())
    ]
    headers = {"origin": server.url, "accept": "text/html"}
    answer = server.client.post(path, data=form, files=files or None, headers=headers)
    return None if answer.status_code == 303 else unescaped(answer)


def unescaped(answer: httpx.Response) -> str:
    """Return the text of a page."""
    import html

    assert 200 <= answer.status_code < 500, answer.text[:1000]
    return html.unescape(answer.text)


class Mcp(OfServer):
    """The MCP server of `ao serve`; `ao mcp` and the server of a worker have the same tools."""

    lacks = {
        **OWN_IDS,
        **SERVERS_SCRIPT,
        "parent_session_id": "the session that calls is the parent",
        "requires": "the client demands tags for all that it starts, by a header",
        **dict.fromkeys(("priority", "not_before", "requeue"), "an agent asks, and the operator decides"),
        "profile": "an agent may not choose what confines another one",
        "executor_config": Api.lacks["executor_config"],
    }
    names = {**MEMBERS, "execution_mode": "mode"}
    always = {"execution_mode": "async_poll"}
    given: ClassVar = {"profile": "teller"}
    not_played = {
        **OfServer.not_played,
        "no agent": "a run without an agent has no profile, and would start a real model",
        "no profile": "the agents have one",
    }

    def ask(self, server: Served, asked: Mapping[str, Any], folder: Path) -> str | None:
        tool, arguments = _tool(asked, folder)
        call = {"name": tool, "arguments": arguments}
        content = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}).encode()
        headers = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
        answer = server.client.post("/mcp", content=content, headers=headers)
        if answer.status_code != 200:
            assert answer.status_code < 500, answer.text[:1000]
            return answer.text
        document = json.loads(answer.text.partition("data: ")[2] or answer.text)  # an event of a stream, or JSON
        if "result" not in document:
            return json.dumps(document)
        (text,) = [block["text"] for block in document["result"]["content"]]
        return str(text) if document["result"].get("isError") or "error" in json.loads(text) else None


def _tool(asked: Mapping[str, Any], folder: Path) -> tuple[str, dict[str, Any]]:
    document = document_of({name: value for name, value in asked.items() if name != "profile"}, folder)
    tool = "resume_agent_session" if document.pop("type") == "resume_session" else "start_agent_session"
    mode = document.pop("execution_mode", "async_poll")
    return tool, {**document, "mode": mode}
