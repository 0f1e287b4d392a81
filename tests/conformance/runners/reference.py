"""A runner in plain Python: a foreign runner for the suite to test.

It keeps what SPEC 11 demands of a runner but for contracts (AOX-251, 252) and containment (AOX-248): it asks for an
answer by a contract, and does not judge it. What has to be refused, and with which words, `ao_protocol` knows. A mutant
is a subclass that breaks one thing.
"""

import base64
import codecs
import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote
from uuid import uuid4

from ao_protocol.documents import InvocationRefused, parse_description
from ao_protocol.errors import ErrorType
from ao_protocol.lifecycle import KnownOfRun, complete_event
from tests.conformance.runners.event_rules import Closed, EventRules, NoEvent, now, read_event
from tests.conformance.runners.orders import Order

Document = dict[str, Any]
ALWAYS = ("PATH", "HOME", "LANG", "TZ", "TMPDIR")
START_SECONDS = 10.0
DRAIN_SECONDS = 3.0
RETRYABLE = {"executor_start_timeout", "executor_stalled", "executor_crashed"}
Step = tuple[Callable[[], None], float]


class Runner(Order):
    """Performs one run and prints its events.

    Behind the profile stand the files that are attached, each as `FILE:TYPE`.
    """

    max_line_bytes = 16 * 1024 * 1024

    def __init__(
        self, executor: str, blueprint: str, prompt: str, project_dir: str, timeout: str, idle: str, *more: str
    ) -> None:
        super().__init__(blueprint, prompt, project_dir, more[0] if more else None, more[2:])
        profile = json.loads(Path(more[1]).read_text()) if more[1:] else {}
        self.host: Document = profile.get("input", {})
        """How long a person has to answer a request, and what happens then; empty if nobody answers."""
        self.expires_at: dict[str, float] = {}
        self.executor = executor
        self.limits = {"deadline_exceeded": float(timeout), "executor_stalled": float(idle)}
        self.inbox: queue.Queue[tuple[str, Any]] = queue.Queue(maxsize=1000)
        self.rules = EventRules(f"run_{uuid4().hex}", f"ses_{uuid4().hex}")
        self.description: Document = {}
        self.version = "3.0"
        self.secrets: list[bytes] = []
        self.stop_reason: str | None = None
        self.signals_sent: list[int] = []
        self.steps: list[Step] = []
        self.next_step_at = 0.0
        self.left_out = 0
        self.has_long_event = self.is_completed = False

    def perform(self) -> int:
        """Return the exit code; by then the terminal event is out."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: self.inbox.put(("cancel", None)))
        failure = None
        try:
            self.check(self.invocation())
            failure = self.describe()
            if failure is None:
                self.check_against(parse_description(json.dumps(self.description).encode()), self.invocation())
                self.start()
                failure = self.supervise()
        except InvocationRefused as error:
            self.refuse(error)
        except OSError as error:
            failure = ("executor_not_found", f"cannot start {self.executor}: {error}", "none")
        if failure and not self.rules.has_ended:
            self.end_with(*failure)
        return 0 if self.rules.has_result else 1

    def describe(self) -> tuple[str, str, str] | None:
        asked = self.spawn("describe")
        threading.Thread(target=self.read, args=(asked.stdout, "described"), daemon=True).start()
        ends_at = time.monotonic() + START_SECONDS
        heard: list[tuple[str, Any]] = []
        while asked.poll() is None and time.monotonic() < ends_at and ("cancel", None) not in heard:
            heard.append(self.hear(0.05))
        code = asked.poll()
        self.end_group(asked.pid)
        asked.wait()
        while ("ended", None) not in heard:
            heard.append(self.hear(1.0))
        if ("cancel", None) in heard:
            return "cancelled", "cancelled before the start", "none"
        said = b"".join(found for what, found in heard if what == "described")
        with contextlib.suppress(ValueError):
            self.description = json.loads(said) if code == 0 else {}
        versions = self.description.get("schema_versions")
        if not versions:
            return "protocol_violation", "it does not describe itself", "none"
        self.version = self.version_among(versions)
        names = self.description.get("secrets", [])
        self.secrets = [form for name in names if os.environ.get(name) for form in self.forms_of(os.environ[name])]
        return None

    def version_among(self, versions: list[str]) -> str:
        spoken = [version for version in versions if version.startswith("3.")]
        if not spoken:
            details: Document = {"requested": self.version, "supported": versions}
            raise InvocationRefused(ErrorType.UNSUPPORTED_SCHEMA_VERSION, f"it speaks {versions}", details)
        return self.version if self.version in spoken else spoken[-1]

    def refuse(self, error: InvocationRefused) -> None:
        origin = "environment" if error.error_type is ErrorType.WORKSPACE_ERROR else "caller"
        fields: Document = {"type": error.error_type, "message": error.message, "retryable": False, "origin": origin}
        fields |= {"side_effects": "none", "details": error.details or {}}
        if error.validation_errors:
            fields["validation_errors"] = error.validation_errors
        for event in self.rules.end({"status": "failed", "error": fields}):
            self.say(event)

    def forms_of(self, secret: str) -> list[bytes]:
        encoded = base64.b64encode(secret.encode()).decode().rstrip("=")
        return [form.encode() for form in (json.dumps(secret)[1:-1], secret, quote(secret, safe=""), encoded)]

    def environment(self) -> dict[str, str]:
        named = [*self.description.get("secrets", ()), *self.description.get("environment", ())]
        return {name: os.environ[name] for name in (*ALWAYS, *named) if name in os.environ}

    def spawn(self, *arguments: str) -> "subprocess.Popen[bytes]":
        pipe = subprocess.PIPE
        return subprocess.Popen(
            [self.executor, *arguments],
            bufsize=0,
            stdin=subprocess.DEVNULL if arguments else pipe,
            stdout=pipe,
            stderr=subprocess.DEVNULL if arguments else pipe,
            env=self.environment(),
            cwd=self.folder(),
            start_new_session=True,
        )

    def folder(self) -> str:
        return self.project_dir

    def start(self) -> None:
        self.process = self.spawn()
        line = json.dumps(self.invocation(), ensure_ascii=False).encode()
        for target, arguments in (
            (self.read, (self.process.stdout, "line")),
            (self.drain, (self.process.stderr,)),
            (self.watch, ()),
            (self.write, (line + b"\n",)),
        ):
            threading.Thread(target=target, args=arguments, daemon=True).start()

    def invocation(self) -> Document:
        return {
            "schema_version": self.version,
            "mode": "start",
            "run_id": self.rules.run_id,
            "session_id": self.rules.session_id,
            **self.fields(),
            "control": {"stdin": "open", **({"input": True} if self.promises_answers() else {})},
            "limits": {"max_event_bytes": self.max_line_bytes},
        }

    def promises_answers(self) -> bool:
        return bool(self.host) and self.declares("input")

    def declares(self, capability: str) -> bool:
        return bool(self.description.get("capabilities", {}).get(capability))

    def supervise(self) -> tuple[str, str, str] | None:
        """Listen until the process has left and its output has ended, or has had its time to end."""
        begun = self.progress_at = time.monotonic()
        leaves_at: float | None = None
        exit_code = None
        while leaves_at is None or time.monotonic() < leaves_at:
            what, found = self.hear(0.05)
            if what == "line":
                self.receive(found)
            elif what == "cancel":
                self.stop("cancelled")
            elif what == "exited":
                exit_code, leaves_at = found, time.monotonic() + DRAIN_SECONDS
            elif what == "ended" and exit_code is not None:
                break
            elif what == "ended":
                self.stop("closed stdout")
            if exit_code is None:
                self.look_at_the_clock(time.monotonic() - begun)
        return self.why(exit_code or 0)

    def look_at_the_clock(self, elapsed: float) -> None:
        if self.rules.has_ended:
            self.stop("ended")
        elif not self.rules.has_started and elapsed > START_SECONDS:
            self.stop("executor_start_timeout")
        elif elapsed > self.limits["deadline_exceeded"]:
            self.stop("deadline_exceeded")
        elif time.monotonic() - self.progress_at > self.limits["executor_stalled"] and not self.waits_for_a_person():
            self.stop("executor_stalled")
        for request in [name for name, until in self.expires_at.items() if time.monotonic() >= until]:
            del self.expires_at[request]
            self.expire(request)
        if self.steps and time.monotonic() >= self.next_step_at:
            act, wait = self.steps.pop(0)
            self.next_step_at = time.monotonic() + wait
            act()

    def waits_for_a_person(self) -> bool:
        return any(self.rules.requests.values())

    def expire(self, request: str) -> None:
        if self.host["then"] == "park" and self.declares("input_parking"):
            self.expires_at.clear()
            self.write(b'{"type":"park"}\n')
            return
        self.write(json.dumps(self.expired(request)).encode() + b"\n")
        if self.host["then"] == "cancel":
            self.stop("cancelled")

    def expired(self, request: str) -> Document:
        return {"type": "input_response", "request_id": request, "outcome": "expired", "by": "timeout"}

    def stop(self, reason: str) -> None:
        if self.stop_reason is not None:
            if reason == "ended" and self.stop_reason != "ended":
                self.stop_reason = reason
            return
        self.stop_reason = reason
        self.steps = self.ladder(reason)

    def ladder(self, reason: str) -> list[Step]:
        asks = self.declares("cancel")
        has_nothing_to_do = reason in {"ended", "closed stdout"}
        ask: list[Step] = [(lambda: self.write(b'{"type":"cancel"}\n'), 5)]
        signals: list[Step] = [(lambda: self.send(signal.SIGTERM), 10), (lambda: self.send(signal.SIGKILL), 5)]
        close: list[Step] = [(self.close_stdin, 5 if has_nothing_to_do else 1)]
        is_listening = not has_nothing_to_do and reason != "executor_start_timeout"
        return [*(ask if asks and is_listening else []), *close, *signals]

    def send(self, number: int) -> None:
        self.signals_sent.append(number)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, number)

    def why(self, exit_code: int) -> tuple[str, str, str] | None:
        """Return what the runner says where the executor said nothing; tell of an exit code that disagrees."""
        if self.rules.has_ended:
            sys.stderr.write(f"the executor exited with {exit_code}\n")
            return None
        if self.stop_reason == "cancelled":
            kind = "cancel_timeout" if signal.SIGKILL in self.signals_sent else "cancelled"
        elif self.stop_reason not in {None, "closed stdout"}:
            kind = str(self.stop_reason)
        elif exit_code < 0 and not self.signals_sent:
            kind = "executor_crashed"
        elif self.has_long_event:
            kind = "limit_exceeded"
        else:
            kind = "protocol_violation" if self.left_out else "missing_terminal"
        return kind, f"the executor left with {exit_code} and without a terminal event", "possible"

    def receive(self, line: bytes) -> None:
        """Pass an event on, or say what was wrong with it."""
        line = line.removesuffix(b"\r").removeprefix(codecs.BOM_UTF8)
        if self.rules.has_ended or not line.strip():
            return
        try:
            event = read_event(line, self.complete)
            for before in self.rules.accept(event):
                self.say(before)
        except (NoEvent, Closed) as error:
            self.left_out += 1
            self.complain(str(error))
            return
        if event["event_type"] == "input_requested" and self.promises_answers():
            self.expires_at[event["request_id"]] = time.monotonic() + self.host["wait_seconds"]
        elif event["event_type"] == "input_resolved":
            self.is_answered(event["request_id"])
        if event["event_type"] not in {"heartbeat", "log"}:
            self.progress_at = time.monotonic()
        if event.get("status") == "cancelled" and self.stop_reason in self.limits:
            self.end_with(str(self.stop_reason), "the executor stopped when asked", "possible")
        elif self.rules.renumbered(event) or self.is_completed:
            self.say(event)
        else:
            self.put(line)

    def is_answered(self, request: str) -> None:
        self.expires_at.pop(request, None)

    def complete(self, event: Document) -> Document:
        executor = self.description.get("executor", {})
        known = KnownOfRun(self.rules.run_id, self.rules.session_id, executor, self.version)
        tools, following = self.rules.open_tools, self.rules.their_seq + 1
        whole = complete_event(event, known, seq=following, timestamp=now(), open_tools=tools)
        self.is_completed = whole is not event
        return whole

    def complain(self, text: str) -> None:
        for event in self.rules.complaint(f"the executor broke the protocol: {text}"):
            self.say(event)

    def end_with(self, kind: str, message: str, side_effects: str) -> None:
        error = {"type": kind, "message": message, "side_effects": side_effects, "origin": "executor"}
        status = "cancelled" if kind == "cancelled" else "failed"
        for event in self.rules.end({"status": status, "error": {**error, "retryable": kind in RETRYABLE}}):
            self.say(event)

    def say(self, event: Document) -> None:
        self.put(json.dumps(event).encode())

    def put(self, line: bytes) -> None:
        for secret in self.secrets:
            line = line.replace(secret, b"***")
        sys.stdout.buffer.write(line + b"\n")
        sys.stdout.buffer.flush()

    def hear(self, seconds: float) -> tuple[str, Any]:
        try:
            return self.inbox.get(timeout=seconds)
        except queue.Empty:
            return "", None

    def read(self, pipe: Any, name: str) -> None:
        begun, skips = bytearray(), False
        while chunk := os.read(pipe.fileno(), 65536):
            *whole, rest = chunk.split(b"\n")
            for piece in whole:
                begun, skips = self.begun(begun, piece, skips=skips)
                self.inbox.put((name, b"(a line that is too long)" if skips else bytes(begun)))
                begun, skips = bytearray(), False
            begun, skips = self.begun(begun, rest, skips=skips)
        if begun:
            self.inbox.put((name, bytes(begun)))
        self.inbox.put(("ended", None))

    def begun(self, begun: bytearray, more: bytes, *, skips: bool) -> tuple[bytearray, bool]:
        """Return how a line goes on, and whether it is too long to be kept."""
        if not skips:
            begun += more
        if len(begun) <= self.max_line_bytes:
            return begun, skips
        self.has_long_event = self.has_long_event or begun.startswith(b"{")
        return bytearray(), True

    def drain(self, pipe: Any) -> None:
        while os.read(pipe.fileno(), 65536):
            pass

    def watch(self) -> None:
        os.waitid(os.P_PID, self.process.pid, os.WEXITED | os.WNOWAIT)
        self.end_group(self.process.pid)
        code = self.process.wait()
        self.inbox.put(("exited", code))

    def end_group(self, group: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(group, signal.SIGKILL)

    def write(self, line: bytes) -> None:
        with contextlib.suppress(OSError, ValueError):
            while self.process.stdin and line:
                line = line[self.process.stdin.write(line) :]

    def close_stdin(self) -> None:
        with contextlib.suppress(OSError):
            if self.process.stdin:
                self.process.stdin.close()


if __name__ == "__main__":
    sys.exit(Runner(*sys.argv[1:]).perform())
