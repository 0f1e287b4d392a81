"""Runners that take events, time and signals for what they are not, each in one way."""

import contextlib
import os
import signal
import time
from typing import Any

from tests.conformance.runners.event_rules import NoEvent, read_event
from tests.conformance.runners.reference import ALWAYS, Document, Runner


class SignalsTheLeaderAlone(Runner):
    def send(self, number: int) -> None:
        if number != signal.SIGTERM:
            super().send(number)
            return
        self.signals_sent.append(number)
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.process.pid, number)


class AsksBehindAClosedDoor(Runner):
    """It cancels on stdin, which its invocation has not opened."""

    def invocation(self) -> Document:
        return {name: value for name, value in super().invocation().items() if name != "control"}


class DiesOfABrokenPipe(Runner):
    def write(self, line: bytes) -> None:
        if self.process.stdin:
            self.process.stdin.write(line)


class SendsNoLineEnd(Runner):
    def write(self, line: bytes) -> None:
        super().write(line.rstrip(b"\n"))


class SendsTextForNumbers(Runner):
    def write(self, line: bytes) -> None:
        super().write(line.replace(b": 16777216", b': "16777216"'))


class KeepsWhatItHas(Runner):
    """It passes on no variable of the five but PATH and HOME."""

    def environment(self) -> dict[str, str]:
        return {name: value for name, value in super().environment().items() if name not in ALWAYS[2:]}


class TakesOutEmptySecrets(Runner):
    def describe(self) -> tuple[str, str, str] | None:
        failure = super().describe()
        self.secrets += [b"" for name in self.description.get("secrets", ()) if os.environ.get(name) == ""]
        return failure


class CountsTimeFromTheLastLine(Runner):
    heard_at = 0.0

    def receive(self, line: bytes) -> None:
        self.heard_at = time.monotonic()
        super().receive(line)

    def look_at_the_clock(self, elapsed: float) -> None:
        super().look_at_the_clock(min(elapsed, time.monotonic() - self.heard_at) if self.counts() else elapsed)

    def counts(self) -> bool:
        return self.rules.has_started


class CountsTheStartFromTheLastLine(CountsTimeFromTheLastLine):
    def counts(self) -> bool:
        return not self.rules.has_started


class TakesNoiseForProgress(Runner):
    def complain(self, text: str) -> None:
        self.progress_at = time.monotonic()
        super().complain(text)


class IsCancelledBehindTheEnd(Runner):
    def stop(self, reason: str) -> None:
        if reason == "cancelled" and self.rules.has_ended:
            self.end_with(reason, "cancelled", "possible")
        super().stop(reason)


class ClosesOneTool(Runner):
    def end_with(self, kind: str, message: str, side_effects: str) -> None:
        self.rules.open_tools = dict(list(self.rules.open_tools.items())[:1])
        super().end_with(kind, message, side_effects)


class LetsAResultBeFirst(Runner):
    def receive(self, line: bytes) -> None:
        self.rules.has_started = self.rules.has_started or b'"result"' in line
        super().receive(line)


class ReadsNamesIntoNothing(Runner):
    """It takes an event without names for one of its own run."""

    def receive(self, line: bytes) -> None:
        names: Document = {"run_id": self.rules.run_id, "session_id": self.rules.session_id}
        for name, value in names.items():
            line = line.replace(f'"{name}": null'.encode(), f'"{name}": "{value}"'.encode())
        super().receive(line)


class WantsNamesOnARefusal(Runner):
    """It leaves out the events of an executor that could not read its line, and so cannot know whose they are."""

    def receive(self, line: bytes) -> None:
        super().receive(b"null" if b'"session_id": null' in line else line)


class PassesOnNoNames(Runner):
    """It passes on a refusal that names no run as it came."""

    def say(self, event: Document) -> None:
        is_refusal = event["event_type"] in {"run_started", "failure"} and self.rules.is_unnamed
        super().say({**event, "run_id": None, "session_id": None} if is_refusal else event)


class TakesNullForAFault(Runner):
    def receive(self, line: bytes) -> None:
        with contextlib.suppress(NoEvent):
            event: dict[str, Any] = read_event(line)
            if event["event_type"] != "result" and None in event.values():
                line = b"null"
        super().receive(line)
