"""Runners that read an executor's streams wrongly, each in one way."""

import json
import os
import select
import threading
from collections.abc import Iterator
from typing import Any

from tests.conformance.runners.reference import Document, Runner

BOM = b"\xef\xbb\xbf"


class LeavesStderrUnread(Runner):
    def drain(self, pipe: Any) -> None:
        self.process.wait()


class KeepsEveryLine(Runner):
    max_line_bytes = 1 << 40


class KeepsAllOfStderr(Runner):
    def drain(self, pipe: Any) -> None:
        self.kept = list(iter(lambda: os.read(pipe.fileno(), 65536), b""))


class TakesTheEndOfStderrForTheEnd(Runner):
    def drain(self, pipe: Any) -> None:
        super().drain(pipe)
        self.end_group(self.process.pid)


class HasALimitOfItsOwn(Runner):
    """It tells nobody of the limit, and leaves out what is longer."""

    own_limit_bytes = 65536

    def invocation(self) -> Document:
        return {**super().invocation(), "limits": {}}

    def receive(self, line: bytes) -> None:
        super().receive(line if len(line) < self.own_limit_bytes else b"too long")


class IsOneByteShort(HasALimitOfItsOwn):
    own_limit_bytes = (1 << 20) - 1


class ReplacesWhatIsNoUtf8(Runner):
    def receive(self, line: bytes) -> None:
        super().receive(line.decode(errors="replace").encode())


class EndsLinesAtEveryLineBreak(Runner):
    def receive(self, line: bytes) -> None:
        for part in line.decode(errors="surrogateescape").splitlines():
            super().receive(part.encode(errors="surrogateescape"))


class EndsLinesAtCr(Runner):
    def receive(self, line: bytes) -> None:
        for part in line.split(b"\r"):
            super().receive(part)


class KnowsNoByteOrderMark(Runner):
    def receive(self, line: bytes) -> None:
        super().receive(b"?" + line if line.startswith(BOM) else line)


class WritesTextAnew(Runner):
    """It dies of half a surrogate pair."""

    def put(self, line: bytes) -> None:
        if b"\\ud" in line:
            line = json.dumps(json.loads(line), ensure_ascii=False).encode()
        super().put(line)


class WaitsBeforeItReads(Runner):
    def read(self, pipe: Any, name: str) -> None:
        if name == "line":
            os.waitid(os.P_PID, self.process.pid, os.WEXITED | os.WNOWAIT)
        super().read(pipe, name)


class ReadsHalfADescription(Runner):
    def read(self, pipe: Any, name: str) -> None:
        if name == "described":
            self.inbox.put((name, os.read(pipe.fileno(), 65536)))
            self.inbox.put(("ended", None))
        else:
            super().read(pipe, name)


class ReadsStderrBehindStdout(Runner):
    def __init__(self, *given: str) -> None:
        super().__init__(*given)
        self.is_read = threading.Event()

    def read(self, pipe: Any, name: str) -> None:
        super().read(pipe, name)
        if name == "line":
            self.is_read.set()

    def drain(self, pipe: Any) -> None:
        self.is_read.wait()
        super().drain(pipe)


class ReadsByItself(Runner):
    """It reads stdout with a file object, which keeps lines for itself."""

    def read(self, pipe: Any, name: str) -> None:
        if name == "described":
            super().read(pipe, name)
            return
        with os.fdopen(os.dup(pipe.fileno()), "rb") as lines:
            for line in self.lines_of(lines):
                self.inbox.put((name, line.removesuffix(b"\n")))
        self.inbox.put(("ended", None))

    def lines_of(self, lines: Any) -> Iterator[bytes]:
        yield from lines


class WaitsForWhatItHas(ReadsByItself):
    def lines_of(self, lines: Any) -> Iterator[bytes]:
        line = b"\n"
        while line:
            select.select([lines], [], [])
            line = lines.readline()
            yield line


class LeavesWithTheProcess(ReadsByItself):
    """What stands in the pipe when the process has ended is lost; it dawdles, so that something does."""

    DAWDLES_AT = 3_900

    def lines_of(self, lines: Any) -> Iterator[bytes]:
        line, count = b"\n", 0
        while line and not self.has_left(wait=count == self.DAWDLES_AT):
            line, count = lines.readline(), count + 1
            yield line

    def has_left(self, *, wait: bool) -> bool:
        try:
            options = os.WEXITED | os.WNOWAIT | (0 if wait else os.WNOHANG)
            return os.waitid(os.P_PID, self.process.pid, options) is not None
        except ChildProcessError:
            return True


class ReadsToTheTerminalEvent(ReadsByItself):
    def lines_of(self, lines: Any) -> Iterator[bytes]:
        for line in lines:
            yield line
            if b'"result"' in line:
                return

    def watch(self) -> None:
        super().watch()
        self.inbox.put(("ended", None))
