"""The messages that people and programs are told with: events as JSON, and as a text for chat services."""

import json
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote

from ao_protocol.events import Failure, Result
from ao_protocol.short_text import shorten_line
from ao_protocol.wire import JsonObject
from ao_runner.store.deliveries import Webhook
from ao_runner.store.notices import EventName, Notice
from ao_runner.store.records import RunState
from ao_runner.store.store import Store
from ao_runner.store.store_errors import SessionUnknown
from ao_server.shapes import shown_request, shown_result, shown_run, terminal_of

MOST_CHARACTERS: Final = 500
"""Of a text of an agent in a message for a chat."""


def message_to(store: Store, webhook: Webhook, about: str) -> tuple[str, bytes] | None:
    """Return the id and the body of the message about a run or notice; None if it was deleted.

    The id of the message about the end of a run is the permanent key of the run's last event.

    Raises:
        RowDamaged: The run cannot be read.
    """
    notice = store.notices.find(about)
    message = message_about(store, notice) if notice is not None else _about_end(store, about, "run.ended")
    if message is None:
        return None
    is_chat = webhook.settings.get("format") == "chat"
    body = {"text": chat_text(message, str(webhook.settings.get("address", "")))} if is_chat else message
    return str(message["id"]), json.dumps(body).encode()


def message_about(store: Store, notice: Notice) -> JsonObject | None:
    """Return the message about a notice; None if its run was deleted. Raises as `message_to` does."""
    head: JsonObject = {"type": notice.event, "id": notice.notice_id, "at": notice.at}
    if not notice.run_id:
        return head | notice.facts
    about = _about_end(store, notice.run_id, notice.event)
    if about is None:
        return None
    if notice.event != "input.requested":
        return {**about, **head}
    wanted = notice.facts.get("request_id")
    requests = [one for one in store.inputs.of_run(notice.run_id) if one.request_id == wanted]
    return {**head, "run": about["run"], "request": shown_request(requests[0])} if requests else None


def _about_end(store: Store, run_id: str, event: EventName) -> JsonObject | None:
    found = [state for state in store.runs.find(run_id) if state.run.run_id == run_id]
    if not found:
        return None
    state: RunState = found[0]
    try:
        session = store.sessions.find(state.run.session_id)
    except SessionUnknown:
        return None
    terminal = terminal_of(store, run_id)
    failure = terminal if isinstance(terminal, Failure) else None
    message: JsonObject = {
        "type": event,
        "id": f"{run_id}/{state.attempt}/{state.last_seq}",
        "run": {**shown_run(state, session, failure), "succeeded_by": store.runs.find_successor(run_id)},
    }
    if isinstance(terminal, Result):
        message["result"] = shown_result(store, state, terminal)
    elif failure is not None:
        message["failure"] = failure.error.model_dump(exclude_none=True, mode="json")
    return message


def chat_text(message: Mapping[str, Any], address: str) -> str:
    """Return a message for a chat service, with a link to the page below an address of the server."""
    run = message.get("run") or {}
    who = run.get("agent_name") or "A run without an agent"
    page = f"/ui/runs/{quote(run['run_id'], safe='')}" if run else "/ui/workers"
    match message["type"]:
        case "input.requested":
            said = f"{who} asks: {message['request'].get('title') or message['request']['request_id']}"
        case "profile.paused":
            until = f" until {message['until']}" if message.get("until") else ""
            said = f"Profile {message['profile']} is paused{until}"
        case "host.lost":
            said = f"Host {message['host']} is lost: its last worker is gone"
        case _:
            error = message.get("failure") or {}
            why = f": {error['type']}: {error['message']}" if error else ""
            said = f"{who} {run['status']}{why}"
    return f"{_plain(said)} {address}{page}" if address else _plain(said)


def _plain(text: str) -> str:
    """Return a text that mentions nobody and links to nothing in a chat (https://docs.slack.dev/messaging)."""
    cut = shorten_line(text, MOST_CHARACTERS)
    return cut.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("@", "@\u200b")
