"""Runners that do one thing wrong: `python -m tests.conformance.runners.mutants NAME ARGUMENTS…`."""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

from tests.conformance.runners import misjudging, misreading, trusting  # noqa: F401  # their runners are mutants too
from tests.conformance.runners.reference import Document, Runner, Step


class StartsThroughAShell(Runner):
    def spawn(self, *arguments: str) -> "subprocess.Popen[bytes]":
        pipe, line = subprocess.PIPE, " ".join([self.executor, *arguments])
        return subprocess.Popen(
            ["/bin/sh", "-c", line],
            bufsize=0,
            stdin=pipe,
            stdout=pipe,
            stderr=pipe,
            env=self.environment(),
            cwd=self.folder(),
        )


class SharesItsGroup(Runner):
    def spawn(self, *arguments: str) -> "subprocess.Popen[bytes]":
        pipe = subprocess.PIPE
        return subprocess.Popen(
            [self.executor, *arguments],
            bufsize=0,
            stdin=pipe,
            stdout=pipe,
            stderr=pipe,
            env=self.environment(),
            cwd=self.folder(),
        )

    def end_group(self, group: int) -> None:
        pass

    def send(self, number: int) -> None:
        self.signals_sent.append(number)
        os.kill(self.process.pid, number)


class PassesItsEnvironment(Runner):
    def environment(self) -> dict[str, str]:
        return dict(os.environ)


class ForgetsTheSession(Runner):
    def invocation(self) -> Document:
        return {name: value for name, value in super().invocation().items() if name != "session_id"}


class WritesEventsAnew(Runner):
    def put(self, line: bytes) -> None:
        super().put(json.dumps(json.loads(line)).encode())


class SendsATurnTooEarly(Runner):
    has_asked = False

    def receive(self, line: bytes) -> None:
        super().receive(line)
        if not self.has_asked:
            self.has_asked = True
            self.write(b'{"type":"turn","run_id":"run_next","parameters":{"prompt":"and?"}}\n')


class PassesOnEveryTerminal(Runner):
    def receive(self, line: bytes) -> None:
        had_ended = self.rules.has_ended
        super().receive(line)
        if had_ended and b'"failure"' in line:
            self.put(line)


class BelievesTheExitCode(Runner):
    """It holds the result back until the process has ended."""

    held: Document | None = None

    def put(self, line: bytes) -> None:
        event = json.loads(line)
        if event["event_type"] == "result":
            self.held = event
        else:
            super().put(line)

    def doubts(self, exit_code: int) -> bool:
        return exit_code != 0

    def why(self, exit_code: int) -> tuple[str, str, str] | None:
        if self.held is not None and self.doubts(exit_code):
            error = {"type": "executor_crashed", "message": "it ended badly", "side_effects": "possible"}
            failure = {"event_type": "failure", "status": "failed", "result_text": None}
            self.say({**self.held, **failure, "error": {**error, "retryable": True, "origin": "executor"}})
        elif self.held is not None:
            super().put(json.dumps(self.held).encode())
        return super().why(exit_code)


class BelievesStderr(BelievesTheExitCode):
    def __init__(self, *given: str) -> None:
        super().__init__(*given)
        self.words = b""
        self.is_drained = threading.Event()

    def drain(self, pipe: Any) -> None:
        while chunk := os.read(pipe.fileno(), 65536):
            self.words += chunk
        self.is_drained.set()

    def doubts(self, exit_code: int) -> bool:
        return self.is_drained.wait(5) and b"FATAL" in self.words


class KeepsQuietAboutNoise(Runner):
    def complain(self, text: str) -> None:
        pass


class CallsEverythingACrash(Runner):
    def why(self, exit_code: int) -> tuple[str, str, str] | None:
        ending = super().why(exit_code)
        return ending and ("executor_crashed", *ending[1:])


class PromisesNoSideEffects(Runner):
    def end_with(self, kind: str, message: str, side_effects: str) -> None:
        super().end_with(kind, message, "none")


class TriesAgain(Runner):
    """It starts the executor again after a failure that is retryable, whatever its side effects."""

    has_tried = False

    def put(self, line: bytes) -> None:
        if b'"retryable": true' in line and not self.has_tried:
            self.has_tried = True
            with self.spawn() as second:
                second.communicate(json.dumps(self.invocation()).encode() + b"\n")
        super().put(line)


class KillsAtOnce(Runner):
    def ladder(self, reason: str) -> list[Step]:
        return super().ladder(reason)[-2:] if reason == "cancelled" else super().ladder(reason)


class AsksEverybody(Runner):
    def ladder(self, reason: str) -> list[Step]:
        self.description.setdefault("capabilities", {})["cancel"] = True
        return super().ladder(reason)


class LeavesTheGroupAlive(Runner):
    def end_group(self, group: int) -> None:
        pass


class SendsItsOwnVersion(Runner):
    def write(self, line: bytes) -> None:
        super().write(line.replace(b'"schema_version": "3.0"', b'"schema_version": "4.0"'))


class KnowsOnlyPlainSecrets(Runner):
    def forms_of(self, secret: str) -> list[bytes]:
        return [secret.encode()]


class WaitsForEver(Runner):
    def look_at_the_clock(self, elapsed: float) -> None:
        if self.stop_reason == "cancelled" or self.rules.has_ended:
            super().look_at_the_clock(0.0)


class PromisesAnswersOfNobody(Runner):
    def promises_answers(self) -> bool:
        return self.declares("input")


class PromisesAnswersToEverybody(Runner):
    def promises_answers(self) -> bool:
        return bool(self.host)


class AnswersWhatIsResolved(Runner):
    def is_answered(self, request: str) -> None:
        pass


class TakesAPersonForSilence(Runner):
    def waits_for_a_person(self) -> bool:
        return False


class TakesAbsenceForADenial(Runner):
    def expired(self, request: str) -> Document:
        return {**super().expired(request), "outcome": "declined"}


class ParksNobody(Runner):
    def expire(self, request: str) -> None:
        self.host["then"] = "deny"
        super().expire(request)


class LeavesRequestsOpen(Runner):
    def end_with(self, kind: str, message: str, side_effects: str) -> None:
        self.rules.requests.clear()
        super().end_with(kind, message, side_effects)


class TakesWhatNobodyAsked(Runner):
    def receive(self, line: bytes) -> None:
        if b'"q9"' in line:
            self.rules.requests["q9"] = True
        super().receive(line)


def kinds_of(runner: type[Runner]) -> Iterator[type[Runner]]:
    """Yield every kind of a runner that is defined."""
    for kind in runner.__subclasses__():
        yield kind
        yield from kinds_of(kind)


MUTANTS: dict[str, Callable[..., Runner]] = {
    kind.__name__: kind for kind in kinds_of(Runner) if kind is not misreading.ReadsByItself
}

if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    sys.exit(MUTANTS[sys.argv[1]](*sys.argv[2:]).perform())
