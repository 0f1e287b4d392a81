"""The hostile executor: it performs the play in the file beside it, and records what it receives.

The suite copies it into the folder of each play, after a line that names an interpreter. It imports only a few modules
of the standard library, and no pathlib, so that it starts at once. The schema `vector` defines the steps.
"""
# ruff: noqa: PTH100, PTH101, PTH108, PTH109, PTH120, PTH123

import binascii
import json
import os
import re
import select
import signal
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

FOLDER: Final = os.path.dirname(os.path.abspath(__file__))
LIFE_SECONDS: Final = 120
WAIT_SECONDS: Final = 60.0
USUAL_FIELDS: Final[Mapping[str, dict[str, Any]]] = {
    "run_started": {"schema_version": "3.0", "executor": {"name": "hostile", "version": "1"}},
    "heartbeat": {"phase": "model", "last_progress_seq": 1},
    "result": {"result_text": None, "result_data": None, "stop_reason": "end_turn"},
}
CAUGHT: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
LONG_TEXT: Final = re.compile(r"\$\{(text|line|over):(\d+)\}")
USUAL_EVENT_BYTES: Final = 1_048_576
STREAMS: Final = ("stdin", "stdout", "stderr")
KEPT_COPY_BYTES: Final = 16_000_000


class Journal:
    """The record of the player, one JSON line for each entry, with times of the machine's monotonic clock."""

    def __init__(self) -> None:
        path = f"{FOLDER}/journal.jsonl"
        self._descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        with open(path, encoding="utf-8") as found:
            self.earlier_runs = sum(json.loads(line)["what"] == "run" for line in found)

    def note(self, what: str, **fields: Any) -> None:  # noqa: ANN401  # any JSON
        """Add an entry."""
        entry = json.dumps({"what": what, "at": time.monotonic(), "pid": os.getpid(), **fields})
        os.write(self._descriptor, entry.encode() + b"\n")


class Stdin:
    """The lines from the runner, recorded as they come. The first one that is no `prepare` is the invocation."""

    def __init__(self, journal: Journal) -> None:
        self.invocation: dict[str, Any] | None = None
        self.heard: set[str] = set()
        self._journal = journal
        self._begun = b""

    def listen(self, seconds: float, is_enough: Callable[[], bool] = lambda: False) -> None:
        """Read until `is_enough` is true or the time is up."""
        until = time.monotonic() + seconds
        while not is_enough() and (left := until - time.monotonic()) > 0:
            readable = [] if "eof" in self.heard else [0]
            if select.select(readable, [], [], min(left, 0.2))[0]:
                self._take(os.read(0, 65_536))

    def _take(self, chunk: bytes) -> None:
        if not chunk:
            self.heard.add("eof")
            self._journal.note("eof")
        *whole, self._begun = (self._begun + chunk).split(b"\n")
        for line in whole:
            self._take_line(line)

    def _take_line(self, line: bytes) -> None:
        try:
            document = json.loads(line)
            kind = str(document.get("type"))
        except (ValueError, AttributeError, RecursionError):
            self._journal.note("no_object", text=line[:200].decode(errors="replace"))
            return
        if self.invocation is not None:
            self.heard.add(kind)
            self._journal.note("control", line=document)
        elif kind == "prepare":
            self._journal.note("prepare", line=document)
        else:
            self.invocation = document
            with open(f"{FOLDER}/invocation-{self._journal.earlier_runs}", "wb") as kept:
                kept.write(line)
            self._journal.note("invocation", line=document)


class Speech:
    """The output on stdout and stderr, with the placeholders of the play filled in."""

    def __init__(self, play: Mapping[str, Any], stdin: Stdin, number: int | None) -> None:
        self._play = play
        self._stdin = stdin
        self._seq = self._copied = 0
        self._copy = None if number is None else os.open(f"{FOLDER}/said-{number}", os.O_WRONLY | os.O_CREAT, 0o600)

    def say(self, event: Mapping[str, Any]) -> None:
        """Write an event. Fields of its envelope and its type that the play leaves out are filled in."""
        whole = {**self._envelope(), **USUAL_FIELDS.get(event["event_type"], {}), **event}
        self._seq = whole["seq"]
        self.write(self.filled(json.dumps(whole)).encode() + b"\n")

    def raw(self, text: str) -> None:
        """Write text without adding fields; each `${envelope}` takes the next `seq`."""
        whole, *others = text.split("${envelope}")
        for other in others:
            whole += json.dumps(self._envelope())[1:-1] + other
            self._seq += 1
        self.write(self.filled(whole).encode())

    def write(self, data: bytes) -> None:
        """Write bytes to stdout, and a copy for the suite."""
        if self._copy is not None and self._copied < KEPT_COPY_BYTES:
            self._copied += os.write(self._copy, data)
        write_all(1, data)

    def filled(self, text: str) -> str:
        """Return text with its placeholders filled in, in a form that is valid in a JSON string."""
        if "${" not in text:
            return text
        values = {
            "seq": self._seq,
            "prompt": json.dumps((self._stdin.invocation or {}).get("parameters", {}).get("prompt"))[1:-1],
            **(_forms_of(os.environ.get(self._play["secret_name"], "")) if "${secret" in text else {}),
        }
        for name, value in values.items():
            text = text.replace(f"${{{name}}}", str(value))
        return LONG_TEXT.sub(lambda found: "x" * self._length(found, text), text)

    def _length(self, found: re.Match[str], text: str) -> int:
        if found[1] == "text":
            return int(found[2])
        limits = (self._stdin.invocation or {}).get("limits") or {}
        allowed = int(limits.get("max_event_bytes") or USUAL_EVENT_BYTES)
        if found[1] == "over":
            return allowed + int(found[2])
        return min(int(found[2]), allowed) - len(text.encode()) + len(found[0])

    def _envelope(self) -> dict[str, Any]:
        run = self._stdin.invocation or {}
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        ids = {"session_id": run.get("session_id"), "run_id": run.get("run_id")}
        return {**ids, "seq": self._seq + 1, "timestamp": now}


class Player:
    """Performs the steps of a play, one after the other."""

    def __init__(self, play: Mapping[str, Any], journal: Journal, number: int | None) -> None:
        self.journal = journal
        self.stdin = Stdin(journal)
        self.speech = Speech(play, self.stdin, number)
        self._ignored: set[str] = set()
        self._awaited: set[str] = set()

    def act(self, steps: list[dict[str, Any]]) -> None:
        """Perform the steps, then exit with 0."""
        self._awaited = {step["until"] for step in steps if "until" in step}
        for number in CAUGHT:
            signal.signal(number, self._on_signal)
        signal.alarm(LIFE_SECONDS)  # ends the process in any case
        for step in steps:
            for _ in range(step.get("times", 1)):
                self._take(step)
                if "every_seconds" in step:
                    self.stdin.listen(step["every_seconds"])
        self._leave(0)

    def _take(self, step: dict[str, Any]) -> None:
        match step:
            case {"say": event}:
                self.speech.say(event)
            case {"raw": text}:
                self.speech.raw(text)
            case {"raw_base64": text}:
                self.speech.write(binascii.a2b_base64(text))
            case {"stderr": text}:
                write_all(2, self.speech.filled(text).encode())
            case {"sleep": seconds} | {"listen": seconds}:
                time.sleep(seconds) if "sleep" in step else self.stdin.listen(seconds)
            case {"until": what}:
                self.stdin.listen(WAIT_SECONDS, lambda: what in self.stdin.heard)
            case _:
                self._do(step)

    def _do(self, step: dict[str, Any]) -> None:
        match step:
            case {"mark": name}:
                self.journal.note("mark", name=name)
            case {"ignore": names}:
                self._ignored.update(names)
            case {"close": name}:
                os.close(STREAMS.index(name))
            case {"exit": code}:
                self._leave(code)
            case {"signal_self": name}:
                self.journal.note("signals_itself", name=name)
                os.kill(os.getpid(), signal.Signals[f"SIG{name}"])
            case {"spawn": how}:
                self._spawn(how)
            case {"become_daemon": True}:
                if _forked(own_session=True):
                    os._exit(0)
            case {"spoil": how}:
                os.unlink(__file__) if how == "remove" else os.chmod(__file__, 0o600)
            case _:
                raise ValueError(f"no such step: {step}")

    def _spawn(self, how: Mapping[str, Any]) -> None:
        if _forked(own_session=how.get("own_session", False)):
            return
        for name in how.get("ignores", ()):
            signal.signal(signal.Signals[f"SIG{name}"], signal.SIG_IGN)
        for number, name in enumerate(STREAMS):
            if name not in how.get("keeps", ()):
                os.close(number)
        self.journal.note("descendant", group=os.getpgrp(), ignores=how.get("ignores", []))
        time.sleep(WAIT_SECONDS)
        os._exit(0)

    def _on_signal(self, number: int, _frame: object) -> None:
        name = signal.Signals(number).name.removeprefix("SIG")
        self.journal.note("signal", name=name)
        self.stdin.heard.add(name)
        if name not in self._ignored and name not in self._awaited:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)

    def _leave(self, code: int) -> None:
        self.journal.note("leaves", code=code)
        os._exit(code)


def write_all(descriptor: int, data: bytes) -> None:
    """Write all bytes, in several writes if necessary; exit if nobody reads any more."""
    view = memoryview(data)
    while view:
        try:
            view = view[os.write(descriptor, view) :]
        except BrokenPipeError:
            os._exit(0)


def _forked(*, own_session: bool) -> bool:
    """Fork; return whether this is the parent. The parent returns once the child is in its session."""
    reading, writing = os.pipe()
    if os.fork():
        os.close(writing)
        os.read(reading, 1)
        return True
    if own_session:
        os.setsid()
    os.close(writing)
    return False


def _forms_of(secret: str) -> dict[str, str]:
    from urllib.parse import quote

    return {
        "secret": json.dumps(secret)[1:-1],
        "secret_plain": secret,
        "secret_base64": binascii.b2a_base64(secret.encode(), newline=False).decode(),
        "secret_percent": quote(secret, safe=""),
    }


def _environment_names() -> list[str]:
    """Return the names of the variables at the start of the process, without those that the interpreter adds."""
    try:
        with open("/proc/self/environ", encoding="utf-8", errors="replace") as found:
            return sorted(entry.partition("=")[0] for entry in found.read().split("\0") if entry)
    except OSError:
        return sorted(set(os.environ) - {"LC_CTYPE", "__CF_USER_TEXT_ENCODING"})


def main() -> None:
    """Describe the executor, or perform a run."""
    with open(f"{FOLDER}/play.json", encoding="utf-8") as found:
        play = json.load(found)
    journal = Journal()
    is_run = not sys.argv[1:]
    journal.note(
        "run" if is_run else "describe",
        arguments=sys.argv[1:],
        environment=_environment_names(),
        group=os.getpgrp(),
        session=os.getsid(0),
        folder=os.getcwd(),
    )
    player = Player(play, journal, journal.earlier_runs if is_run else None)
    if is_run and not play["deaf"]:
        stdin = player.stdin
        stdin.listen(WAIT_SECONDS, lambda: stdin.invocation is not None or "eof" in stdin.heard)
    player.act(play["plays"][min(journal.earlier_runs, len(play["plays"]) - 1)] if is_run else play["describe"])


if __name__ == "__main__":
    main()
