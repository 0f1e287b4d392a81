"""Answers that do not fit a contract: an executor writes them to a file for its runner, not to events (SPEC 9.5)."""

import json
import os
import stat
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from ao_protocol.framing import NotIJson, decode_object
from ao_protocol.redaction import Redactor

VARIABLE: Final = "AO_REJECTED_ANSWERS"
"""The variable that names the file. A runner that stores rejected answers sets it."""
FILE_NAME: Final = "rejected-answers.jsonl"
MAX_CHARACTERS: Final = 64 * 1024
"""The maximum length of one answer; the rest is left out."""
MAX_FILE_BYTES: Final = 1024 * 1024
"""An executor adds nothing to a file of this size, and a runner reads no more than this."""


@dataclass(frozen=True, slots=True)
class RejectedAnswer:
    """The text of an answer that does not fit. `attempt` is that of its `output_validation` event, from 1."""

    attempt: int
    text: str
    is_cut: bool = False
    """Whether the answer was longer than `MAX_CHARACTERS`."""

    @classmethod
    def of(cls, attempt: int, text: str) -> "RejectedAnswer":
        """Return the answer, cut after `MAX_CHARACTERS`."""
        return cls(attempt, text[:MAX_CHARACTERS], len(text) > MAX_CHARACTERS)

    def redacted(self, redactor: Redactor) -> "RejectedAnswer":
        """Return the answer without secrets. A cut answer loses its end, which may be the beginning of a secret."""
        text = redactor.text(self.text)
        return replace(self, text=text[: len(text) - redactor.longest_bytes] if self.is_cut else text)


def leave_answer(environ: Mapping[str, str], answer: RejectedAnswer) -> None:
    """Append an answer to the file that the environment names, if any, and if the file has room.

    This never raises OSError: the answers help people, and no run depends on them.
    """
    if not (path := environ.get(VARIABLE)):
        return
    document = {"attempt": answer.attempt, "text": answer.text, "is_cut": answer.is_cut}
    line = json.dumps(document).encode() + b"\n"
    with suppress(OSError):
        file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600)
        try:
            if os.fstat(file).st_size < MAX_FILE_BYTES:
                os.write(file, line)
        finally:
            os.close(file)


def take_answers(path: Path) -> list[RejectedAnswer]:
    """Return the answers that an executor wrote to a file, and delete the file. Invalid lines are ignored.

    The file is untrusted: neither its content nor its type causes an exception.
    """
    content = b""
    with suppress(OSError):
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        try:
            if stat.S_ISREG(os.fstat(file).st_mode):
                content = os.read(file, MAX_FILE_BYTES)
        finally:
            os.close(file)
    with suppress(OSError):
        path.unlink(missing_ok=True)
    lines = content.split(b"\n")[:-1]  # after the last line end comes nothing, or a part of a line
    return [answer for line in lines if (answer := _answer(line)) is not None]


def _answer(line: bytes) -> RejectedAnswer | None:
    try:
        document = decode_object(line)
    except NotIJson:
        return None
    match document:
        case {"attempt": int(attempt), "text": str(text)} if attempt > 0 and not isinstance(attempt, bool):
            answer = RejectedAnswer.of(attempt, text)
            return replace(answer, is_cut=answer.is_cut or document.get("is_cut") is True)
        case _:
            return None
