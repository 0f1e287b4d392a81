"""What the simulated API says to each request, and the record of all of them. No sockets here.

Safe to use from many threads: one condition guards the playback and the record.
"""

import secrets
import threading
from collections.abc import Callable
from typing import Final
from urllib.parse import parse_qsl

from pydantic import JsonValue

from ao_model_simulator.model_request import (
    ANTHROPIC,
    ModelRequest,
    RecordedRequest,
    Verdict,
    find_provider,
    nearest_provider,
)
from ao_model_simulator.playback import Answered, Mismatched, NotInScript, Playback
from ao_model_simulator.provider import GivenAnswer, ModelError, Provider
from ao_model_simulator.replies import Reply, answer_reply, error_reply, json_reply, side_document
from ao_model_simulator.script import Script

CONTROL_PREFIX: Final = "/_sim/"
DEFAULT_MODEL: Final = "claude-simulated"
DEFAULT_POLL_SECONDS: Final = 10.0
LONGEST_POLL_SECONDS: Final = 60.0


class Simulation:
    """Answer requests from a script and remember them."""

    def __init__(self, script: Script, on_record: Callable[[RecordedRequest], None] | None = None) -> None:
        self._script = script
        self._playback = Playback(script)
        self._on_record = on_record
        self._records: list[RecordedRequest] = []
        self._changed = threading.Condition()
        self._closed = False
        # Clients join messages of equal id, and a session may be resumed against another simulation.
        self._identity = secrets.token_hex(4)

    def reply_to(self, request: ModelRequest) -> Reply:
        """Return what to send back, after the request was recorded."""
        if request.route.startswith(CONTROL_PREFIX):
            return self._control_reply(request)
        if provider := find_provider(request.method, request.path):
            return self._model_reply(provider, request)
        document = side_document(request, self._script.model or DEFAULT_MODEL)
        if document is not None:
            self._record(request, Verdict.SIDE)
            return json_reply(document)
        problem = f"no simulated API has {request.method} {request.route}"
        self._record(request, Verdict.UNEXPECTED, problems=(problem,))
        return _refuse(nearest_provider(request.path), request, 404, problem)

    @property
    def records(self) -> tuple[RecordedRequest, ...]:
        """Every request so far, in the order of arrival."""
        with self._changed:
            return tuple(self._records)

    @property
    def answers_left(self) -> int:
        """How many answers of the script were not given."""
        with self._changed:
            return self._playback.left

    def wait_for_model_requests(self, count: int, timeout_seconds: float) -> bool:
        """Wait until the model was asked that often. Return whether it was."""

        def is_enough() -> bool:
            return sum(record.kind is not None for record in self._records) >= count

        with self._changed:
            self._changed.wait_for(lambda: is_enough() or self._closed, timeout_seconds)
            return is_enough()

    def close(self) -> None:
        """Wake up whoever waits for requests: no more will come."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _model_reply(self, provider: Provider, request: ModelRequest) -> Reply:
        with self._changed:
            decision = self._playback.decide(request)
            given = self._playback.given
            match decision:
                case Answered(index, answer):
                    self._record(request, Verdict.ANSWERED, answer_index=index)
                case Mismatched(index, problems):
                    self._record(request, Verdict.MISMATCHED, answer_index=index, problems=problems)
                    return _refuse(provider, request, 400, "; ".join(problems))
                case NotInScript(problems):
                    self._record(request, Verdict.UNEXPECTED, problems=problems)
                    return _refuse(provider, request, 400, "; ".join(problems))
        model = answer.model or self._script.model or request.model or DEFAULT_MODEL
        turn = GivenAnswer(f"{self._identity}_{given}", model, answer, request.path, request.fields)
        return answer_reply(provider, turn, stream=request.wants_stream)

    def _record(
        self,
        request: ModelRequest,
        verdict: Verdict,
        *,
        answer_index: int | None = None,
        problems: tuple[str, ...] = (),
    ) -> None:
        with self._changed:
            record = RecordedRequest(
                method=request.method,
                path=request.path,
                headers=request.headers,
                body=request.body,
                number=len(self._records) + 1,
                verdict=verdict,
                answer_index=answer_index,
                problems=problems,
            )
            self._records.append(record)
            if self._on_record is not None:
                self._on_record(record)
            self._changed.notify_all()

    def _control_reply(self, request: ModelRequest) -> Reply:
        match request.method, request.route:
            case "GET", "/_sim/requests":
                if not self._wait_as_asked(request):
                    return _refuse(ANTHROPIC, request, 400, "at_least and timeout_seconds must be numbers")
                return json_reply({"requests": [record.as_json() for record in self.records]})
            case "GET", "/_sim/state":
                return json_reply(self._state())
            case method, route:
                return _refuse(ANTHROPIC, request, 404, f"there is no {method} {route}")

    def _wait_as_asked(self, request: ModelRequest) -> bool:
        """Wait for `at_least` requests, if the query says so. Return whether the query could be read."""
        query = dict(parse_qsl(request.path.partition("?")[2]))
        try:
            count = int(query.get("at_least", 0))
            timeout_seconds = float(query.get("timeout_seconds", DEFAULT_POLL_SECONDS))
        except ValueError:
            return False
        self.wait_for_model_requests(count, min(LONGEST_POLL_SECONDS, timeout_seconds))
        return True

    def _state(self) -> dict[str, JsonValue]:
        with self._changed:
            records = list(self._records)
            given, left = self._playback.given, self._playback.left
        return {
            "answers_given": given,
            "answers_left": left,
            "requests": len(records),
            "unexpected": [r.as_json() for r in records if r.verdict is Verdict.UNEXPECTED],
            "mismatches": [r.as_json() for r in records if r.verdict is Verdict.MISMATCHED],
        }


def _refuse(provider: Provider, request: ModelRequest, status: int, problem: str) -> Reply:
    return error_reply(provider, ModelError(status, f"model-sim: {problem}"), request.path)
