"""The simulator as a context manager: it listens inside the `with` block only."""

import json
import secrets
import threading
from pathlib import Path
from typing import IO, Final, Self
from urllib.parse import parse_qsl

from pydantic import JsonValue

from ao_model_simulator.endpoints import base_url
from ao_model_simulator.model_request import (
    ANTHROPIC,
    ModelRequest,
    RecordedRequest,
    Verdict,
    find_provider,
    nearest_provider,
)
from ao_model_simulator.playback import Decision, Playback
from ao_model_simulator.provider import GivenAnswer, ModelError, Provider
from ao_model_simulator.replies import Reply, answer_reply, error_reply, json_reply, side_document
from ao_model_simulator.script import Script, fill_text_files, load_script
from ao_model_simulator.server import LoopbackServer

CONTROL_PREFIX: Final = "/_sim/"
DEFAULT_MODEL: Final = "claude-simulated"
DEFAULT_POLL_SECONDS: Final = 10.0
LONGEST_POLL_SECONDS: Final = 60.0
UNREADABLE_BODY: Final = {
    "anthropic": "The request body is not valid JSON",
    "openai": "We could not parse the JSON body of your request.",
    "gemini": "Invalid JSON payload received.",
}
"""The words of each service for a body that it cannot parse."""


class ScriptNotSatisfied(AssertionError):
    """The requests were not those of the script, or answers were not used."""


class ModelSimulator:
    """Model APIs on 127.0.0.1 that answer from a script during the `with` block.

    Nothing is left running after the block, whatever the clients do: open streams and stalls are ended.
    """

    def __init__(self, script: Script | Path | str, *, port: int = 0, record_file: Path | None = None) -> None:
        """Read the script. The `with` block listens.

        Args:
            script: The path of a script file, or a `Script`, whose `text_file`s are relative to the working directory.
            port: The port to listen on; 0 selects a free one.
            record_file: The path of a file to which one JSON line per request is appended immediately; None records to
                no file.

        Raises:
            ScriptError: The script cannot be used.
        """
        if isinstance(script, Script):
            self.script = fill_text_files(script, Path("the script"))
        else:
            self.script = load_script(Path(script))
        self._port = port
        self._record_path = record_file
        self._record_file: IO[str] | None = None
        self._server: LoopbackServer | None = None
        self._playback = Playback(self.script)
        self._records: list[RecordedRequest] = []
        # This condition guards the state above, because each connection has its own thread.
        self._changed = threading.Condition()
        self._is_closed = False
        # Clients join messages of equal id, and a session may be resumed against another simulator.
        self._identity = secrets.token_hex(4)

    def __enter__(self) -> Self:
        """Start to listen.

        Returns:
            The simulator.

        Raises:
            CannotListen: The port is taken or not allowed. This is an `OSError`.
            OSError: The record file cannot be opened.
        """
        if self._record_path is not None:
            self._record_file = self._record_path.open("a", encoding="utf-8")
        try:
            self._server = LoopbackServer(self._reply_to, self._port)
        except OSError:
            self._close_record_file()
            raise
        self._server.start()
        return self

    def __exit__(self, *_: object) -> None:
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()  # ends the waits for requests
        if self._server is not None:
            self._server.close()
        self._close_record_file()

    @property
    def url(self) -> str:
        """The address, without a path. `base_url` returns the URL for a client.

        Raises:
            RuntimeError: The `with` block has not begun.
        """
        if self._server is None:
            raise RuntimeError("the simulator listens inside its with block only")
        return self._server.url

    def base_url(self, kind: str) -> str:
        """Return the base URL for the official client of an API. For OpenAI, for example, it ends in `/v1`.

        Args:
            kind: `anthropic`, `openai-chat`, `openai-responses` or `gemini`.

        Returns:
            The address with the suffix that the client expects.

        Raises:
            UnknownKind: No simulated API has this name.
            RuntimeError: The `with` block has not begun.
        """
        return base_url(kind, self.url)

    @property
    def requests(self) -> tuple[RecordedRequest, ...]:
        """The requests to a model, through any API, answered or not."""
        return tuple(record for record in self.all_requests if record.kind is not None)

    @property
    def all_requests(self) -> tuple[RecordedRequest, ...]:
        """All received requests, including probes, lists of models and token counts."""
        with self._changed:
            return tuple(self._records)

    @property
    def unexpected(self) -> tuple[RecordedRequest, ...]:
        """The requests for which the script has no answer."""
        return tuple(record for record in self.all_requests if record.verdict is Verdict.UNEXPECTED)

    @property
    def mismatches(self) -> tuple[RecordedRequest, ...]:
        """The requests that did not match the expectation of the next answer."""
        return tuple(record for record in self.all_requests if record.verdict is Verdict.MISMATCHED)

    @property
    def answers_left(self) -> int:
        """The number of answers that were not given yet."""
        with self._changed:
            return self._playback.left

    def wait_for_requests(self, count: int, timeout_seconds: float) -> bool:
        """Wait until the model has received a number of requests, through any API.

        Args:
            count: The number of requests since the start of the simulator.
            timeout_seconds: The maximum time to wait, in seconds.

        Returns:
            Whether the model has received them. The wait also ends when the simulator stops.
        """

        def is_enough() -> bool:
            return sum(record.kind is not None for record in self._records) >= count

        with self._changed:
            self._changed.wait_for(lambda: is_enough() or self._is_closed, timeout_seconds)
            return is_enough()

    def find_problems(self, *, strict: bool = False) -> list[str]:
        """Return the problems of the simulation.

        Args:
            strict: Whether unused answers are a problem.

        Returns:
            One sentence for each problem of a request and, if `strict`, one for unused answers; empty without problems.
        """
        problems = [text for record in self.all_requests for text in record.problems]
        if strict and self.answers_left:
            problems.append(f"{self.answers_left} of the script's answers were not asked for")
        return problems

    def require_satisfied(self, *, strict: bool = True) -> None:
        """Require that every request matched the script and, if `strict`, that every answer was used.

        Args:
            strict: Whether unused answers are a problem.

        Raises:
            ScriptNotSatisfied: The requirement is not met. The message has one line for each problem.
        """
        if problems := self.find_problems(strict=strict):
            raise ScriptNotSatisfied("\n".join(problems))

    def _reply_to(self, request: ModelRequest) -> Reply:
        """Return the reply to a request, after recording the request."""
        if request.route.startswith(CONTROL_PREFIX):
            return self._control_reply(request)
        if isinstance(request.body, str):
            self._record(request, Decision(Verdict.UNEXPECTED, problems=("the body of a request is no valid JSON",)))
            provider = nearest_provider(request.path)
            return error_reply(
                provider, ModelError(400, UNREADABLE_BODY[provider.kind.partition("-")[0]]), request.path
            )
        if found := find_provider(request.method, request.path):
            return self._model_reply(found, request)
        document = side_document(request, self.script.model or DEFAULT_MODEL)
        if document is not None:
            self._record(request, Decision(Verdict.SIDE))
            return json_reply(document)
        problem = f"no simulated API has {request.method} {request.route}"
        self._record(request, Decision(Verdict.UNEXPECTED, problems=(problem,)))
        return _refuse(nearest_provider(request.path), request, 404, problem)

    def _model_reply(self, provider: Provider, request: ModelRequest) -> Reply:
        if (refusal := next(provider.refusals(request.path, request.fields), None)) is not None:
            problem = f"{provider.title} refuses the request: {refusal.message}"
            self._record(request, Decision(Verdict.REFUSED, problems=(problem,)))
            return error_reply(provider, refusal, request.path)
        with self._changed:
            decision = self._playback.decide(request)
            given = self._playback.given
            self._record(request, decision)
        if (answer := decision.answer) is None:
            return _refuse(provider, request, 400, "; ".join(decision.problems))
        model = answer.model or self.script.model or request.model or DEFAULT_MODEL
        turn = GivenAnswer(
            f"{self._identity}_{given}", model, answer.offered(request.tool_names), request.path, request.fields
        )
        return answer_reply(provider, turn, stream=request.wants_stream)

    def _record(self, request: ModelRequest, decision: Decision) -> None:
        with self._changed:
            record = RecordedRequest(
                method=request.method,
                path=request.path,
                headers=request.headers,
                body=request.body,
                number=len(self._records) + 1,
                verdict=decision.verdict,
                answer_index=decision.answer_index,
                problems=decision.problems,
            )
            self._records.append(record)
            if self._record_file is not None:
                self._record_file.write(json.dumps(record.as_json()) + "\n")
                self._record_file.flush()
            self._changed.notify_all()

    def _control_reply(self, request: ModelRequest) -> Reply:
        match request.method, request.route:
            case "GET", "/_sim/requests":
                if not self._wait_as_asked(request):
                    return _refuse(ANTHROPIC, request, 400, "at_least and timeout_seconds must be numbers")
                return json_reply({"requests": [record.as_json() for record in self.all_requests]})
            case "GET", "/_sim/state":
                with self._changed:
                    records, given, left = list(self._records), self._playback.given, self._playback.left
                unexpected, mismatches = (
                    [record.as_json() for record in records if record.verdict is verdict]
                    for verdict in (Verdict.UNEXPECTED, Verdict.MISMATCHED)
                )
                counts: dict[str, JsonValue] = {"answers_given": given, "answers_left": left, "requests": len(records)}
                return json_reply({**counts, "unexpected": [*unexpected], "mismatches": [*mismatches]})
            case method, route:
                return _refuse(ANTHROPIC, request, 404, f"there is no {method} {route}")

    def _wait_as_asked(self, request: ModelRequest) -> bool:
        """Wait for `at_least` requests if the query has it; return whether the query could be read."""
        query = dict(parse_qsl(request.path.partition("?")[2]))
        try:
            count = int(query.get("at_least", 0))
            timeout_seconds = float(query.get("timeout_seconds", DEFAULT_POLL_SECONDS))
        except ValueError:
            return False
        self.wait_for_requests(count, min(LONGEST_POLL_SECONDS, timeout_seconds))
        return True

    def _close_record_file(self) -> None:
        with self._changed:
            if self._record_file is not None:
                self._record_file.close()
                self._record_file = None


def _refuse(provider: Provider, request: ModelRequest, status: int, problem: str) -> Reply:
    return error_reply(provider, ModelError(status, f"model-sim: {problem}"), request.path)
