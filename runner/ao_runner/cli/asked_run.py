"""One run that another program asks for in JSON, performed as `ao run` performs it; `ao_runner.temporal` starts this.

usage: python -m ao_runner.cli.asked_run PARENT_PID < ORDER

The run ends when its parent does, or nobody reads stdout. The order is one JSON object, see `Order`. Each line of stdout is an object of things that are so from now on:

| field | meaning |
| --- | --- |
| `run_id`, `session_id`, `host`, `seq` | the run, the host that has its session, and its latest event; at most once a second |
| `result` | the `result` event, with `host`; the last line |
| `error` | why there is no result: `type`, `message`, `retryable`, `is_undone` (nothing was done), maybe more; the last line |
"""  # noqa: E501  # a table

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from ao_protocol.errors import ErrorType
from ao_protocol.events import Failure
from ao_protocol.json_path import ROOT, below
from ao_protocol.wire import JsonObject, Name, problems_of
from ao_protocol.written import NotInteroperable, decode_text, parse_json
from ao_runner.blueprints.loading import LoadedBlueprint, load_blueprint, nearest, understand_blueprint
from ao_runner.cli.run_command import perform_here, store_of_this_host
from ao_runner.cli.run_progress import EventLines
from ao_runner.errors import RunnerError
from ao_runner.home import default_home
from ao_runner.profiles import Profile, load_profile, with_whole_path
from ao_runner.run_events import Relayed
from ao_runner.runs.asked_in_json import AskedInJson
from ao_runner.runs.run import profile_to_continue
from ao_runner.runs.submission import DEFAULT_EXECUTORS, NewRun, Reception, accept
from ao_runner.store.ownership import host_name
from ao_runner.store.store import Store
from ao_runner.store.store_errors import SessionBusy

BEAT_SECONDS: Final = 1.0
MAX_RESULT_BYTES: Final = (2 << 20) - (64 << 10)
"""Temporal takes 2 MiB as JSON in ASCII; the rest is room for what a client adds."""
USAGE_LIMITS: Final = frozenset({ErrorType.RATE_LIMITED, ErrorType.QUOTA_EXCEEDED})
MAX_MESSAGE_CHARACTERS: Final = 10_000
MAX_SHOWN_ERRORS: Final = 20


class Order(AskedInJson):
    """The fields of a request, but those of a queue. `prompt` is short for `parameters.prompt`."""

    blueprint: JsonObject | Name | None = None
    session_id: Name | None = None
    host: Name | None = None
    parameters: JsonObject = {}
    prompt: str | None = None
    project_dir: Name | None = None
    executor_config: JsonObject = {}
    model_script: Name | None = None
    parent_session_id: Name | None = None
    requeue_at_reset: bool = False
    """Whether a usage limit with a known reset is retryable, also if its failure says that it is not."""
    verify_results: bool = False


class OrderRefused(RunnerError):
    """An order that cannot be performed; the message names field, finding and expectation."""


class NotOnThisHost(OrderRefused):
    """The session to continue is not in the store of this host."""


def main() -> None:
    """Perform the order on stdin and exit, with the exit code of `ao run`."""
    parent = int(sys.argv[1])
    if os.getppid() != parent:
        sys.exit("the process that asked for the run has ended")
    try:
        order = read_order(sys.stdin.buffer.read())
        home = Path(os.environ.get("AO_HOME") or default_home()).absolute()
        with store_of_this_host(home) as store:
            _perform(order, home, store, parent)
    except (RunnerError, NotInteroperable, OSError) as error:
        kind = ErrorType.SESSION_NOT_FOUND if isinstance(error, NotOnThisHost) else ErrorType.INVALID_INVOCATION
        told: JsonObject = {"type": kind, "message": str(error)[:MAX_MESSAGE_CHARACTERS]}
        if isinstance(error, SessionBusy):
            told |= {"type": "session_busy", "retryable": True, "is_undone": True}
        sys.stdout.write(json.dumps({"error": told}) + "\n")
        sys.exit(getattr(error, "exit_code", 1))


def read_order(data: bytes) -> Order:
    """Return the order in some JSON.

    Raises:
        OrderRefused: It is not one.
    """
    try:
        document = parse_json(decode_text(data))
    except NotInteroperable as error:
        raise OrderRefused(f"the order is not JSON that a run can carry: {error}") from error
    if not isinstance(document, dict):
        raise OrderRefused(f"$: expected an object, found a {type(document).__name__}")
    known = Order.model_fields
    if unknown := [f"{below(ROOT, one)}: unknown field{nearest(one, known)}" for one in document if one not in known]:
        raise OrderRefused("; ".join(unknown))
    try:
        order = Order.model_validate(document)
    except ValidationError as error:
        raise OrderRefused("; ".join(problems_of(error, document))) from error
    if (order.blueprint is None) == (order.session_id is None):
        raise OrderRefused("$: expected either blueprint, which begins a session, or session_id, which continues one")
    return order


def _perform(order: Order, home: Path, store: Store, parent: int) -> None:
    loaded = _blueprint(order)
    terms = order.to_fields()
    if order.profile is not None:
        terms["profile"] = with_whole_path(order.profile)
    asked = NewRun(
        parameters=order.parameters if order.prompt is None else {**order.parameters, "prompt": order.prompt},
        blueprint=loaded,
        session_id=order.session_id,
        project_dir=None if order.project_dir is None else str(Path(order.project_dir).absolute()),
        executor_config=order.executor_config,
        is_simulated=order.model_script is not None,
        parent_session_id=order.parent_session_id,
        **terms,
    )
    if order.session_id is not None and not store.sessions.exists(order.session_id):
        here = f"session {order.session_id} is not in the store of this host, {host_name()}"
        raise NotOnThisHost(f"{here}; give the `host` of its result, and run `agent_workers` there")
    accepted = accept(asked, Reception(os.environ, home, str(Path.cwd()), store, is_queued=False))
    profile = _profile(asked, loaded, home, store)
    given: dict[str, Any] = {
        "home": home,
        "style": "json",
        "verbose": False,
        "model_script": None if order.model_script is None else Path(order.model_script),
        "verify_results": order.verify_results,
    }
    run = accepted.run
    ids: JsonObject = {"run_id": run.run_id, "session_id": run.session_id, "host": host_name()}
    perform_here(given, store, accepted, profile, lambda stop: OrderLines(stop, ids, order), parent)


def _blueprint(order: Order) -> LoadedBlueprint | None:
    if order.blueprint is None:
        return None
    if isinstance(order.blueprint, str):
        return load_blueprint(Path(order.blueprint))
    return understand_blueprint(Path(order.project_dir or ".") / "blueprint", order.blueprint)


def _profile(asked: NewRun, loaded: LoadedBlueprint | None, home: Path, store: Store) -> Profile:
    if loaded is not None:
        return load_profile(asked.profile or DEFAULT_EXECUTORS[loaded.blueprint.type], home, os.environ)
    session = store.sessions.find(str(asked.session_id))
    return profile_to_continue(session, asked.profile or session.profile, home)


class OrderLines(EventLines):
    """The listener that writes the lines of this program."""

    def __init__(self, stop: Callable[[], None], ids: JsonObject, order: Order) -> None:
        super().__init__(stop, terminal_only=False)
        self._ids = ids
        self._waits_for_reset = order.requeue_at_reset
        self._next_at = 0.0

    def on_event(self, relayed: Relayed) -> None:
        """Write how far the run is, at most once a second, and its end."""
        if relayed.event_type in {"result", "failure"}:
            self.write_line(json.dumps(self._end(relayed), separators=(",", ":")).encode())
        elif time.monotonic() >= self._next_at:
            self._next_at = time.monotonic() + BEAT_SECONDS
            self.write_line(json.dumps({**self._ids, "seq": relayed.seq}).encode())

    def _end(self, relayed: Relayed) -> JsonObject:
        body = relayed.body
        if isinstance(body, Failure):
            error, delay = body.error, body.error.retry_after_seconds
            is_reset = self._waits_for_reset and delay is not None and error.type in USAGE_LIMITS
            told: JsonObject = {
                "type": error.type,
                "message": error.message[:MAX_MESSAGE_CHARACTERS],
                "retryable": error.retryable or is_reset,
                "is_undone": error.side_effects == "none",
                "retry_after_seconds": delay,
                "validation_errors": [one[:1000] for one in (error.validation_errors or [])[:MAX_SHOWN_ERRORS]],
            }
            return {**self._ids, "error": told}
        result = {**relayed.document, "host": self._ids["host"]}
        if (size := len(json.dumps(result, separators=(",", ":")))) <= MAX_RESULT_BYTES:
            return {**self._ids, "result": result}
        message = (
            f"the result has {size} bytes as JSON in ASCII, and Temporal takes {MAX_RESULT_BYTES}. It is stored on the"
            f" host {self._ids['host']}: `ao result {self._ids['run_id']}` prints it. Let the agent write a file, or a"
            " shorter answer"
        )
        return {**self._ids, "error": {"type": "result_too_large", "message": message}}


if __name__ == "__main__":
    main()
