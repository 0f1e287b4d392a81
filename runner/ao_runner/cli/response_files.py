"""The responses that files hold: as an agent wrote them, or inside the result of a run that `ao run --json` printed."""

import codecs
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

from ao_protocol.output.agent_response import (
    AgentResponseError,
    Form,
    NoResponseFound,
    Reading,
    RemarkKind,
    examine_response,
)
from ao_protocol.wire import JsonObject

STDIN: Final = "-"
MAX_FILE_BYTES: Final = 64 * 1024 * 1024
"""No text that is read has more characters than fit into this."""

_FIELDS_OF_A_RESULT: Final = frozenset({"result_data", "result_text"})
_UTF_16: Final = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_STRICTLY: Final = frozenset({RemarkKind.REPAIRED, RemarkKind.OLDER})


class UnreadableFile(AgentResponseError):
    """There is no text to be read: no file, no UTF-8, too many bytes."""


class NoResult(AgentResponseError):
    """The run that the file tells of ended without a result."""


@dataclass(frozen=True, slots=True)
class ReadFile:
    """A file that holds a response."""

    name: str
    reading: Reading


@dataclass(frozen=True, slots=True)
class RefusedFile:
    """A file that holds none, and all that is wrong with it."""

    name: str
    problems: tuple[AgentResponseError, ...]


LookedAt: TypeAlias = ReadFile | RefusedFile


def look_at_files(files: Sequence[str], *, agent: str | None, form: Form | None = None) -> Iterator[LookedAt]:
    """Yield for each file, in their order, its response or what is wrong with it.

    `agent` is whose a text is that does not say it; without it, the name of the file says so. With `form` a response
    in another form is refused.
    """
    for name in files:
        stem = None if name == STDIN else Path(name).stem
        try:
            yield ReadFile(name, _reading_of(response_text(_text_of(name)), form, agent or stem))
        except AgentResponseError as error:
            yield RefusedFile(name, error.problems)


def _reading_of(text: str, form: Form | None, agent: str | None) -> Reading:
    try:
        return examine_response(text, form=form, agent=agent)
    except NoResponseFound as error:
        raise _told_with_its_form(text, form, error) from error


def _told_with_its_form(text: str, form: Form | None, error: NoResponseFound) -> AgentResponseError:
    """Return what is to be said where another form was demanded than the text is written in."""
    try:
        found = examine_response(text) if form is not None else None
    except AgentResponseError:
        found = None
    if found is None:
        return error
    written = f"written as {found.form}" if found.form else "in an older format"
    return NoResponseFound("the text", f"a response {written}", f"one written as {form}")


def strictly(looked_at: LookedAt) -> LookedAt:
    """Return what was looked at, refused where it could be read only by a repair or as an older format."""
    if isinstance(looked_at, RefusedFile):
        return looked_at
    problems = tuple(
        AgentResponseError(remark.place, remark.message, "the current format without errors")
        for remark in looked_at.reading.remarks
        if remark.kind in _STRICTLY
    )
    return RefusedFile(looked_at.name, problems) if problems else looked_at


def response_text(text: str) -> str:
    """Return the text of the response: the result that a terminal event gives, also behind other events, or the text.

    Raises:
        NoResult: the terminal event is a failure, or its result is nothing.
    """
    result = _result_in(text)
    if result is None:
        return text
    if result.get("result_data") is not None:
        return json.dumps(result["result_data"], ensure_ascii=False)
    written = result.get("result_text")
    if isinstance(written, str):
        return written
    raise NoResult("the result", _end_of(result), "a run with a result")


def _result_in(text: str) -> JsonObject | None:
    if not text.lstrip("\ufeff \t\r\n").startswith("{"):
        return None
    last_line = text.rstrip().rpartition("\n")[2]
    if not any(f'"{field}"' in text for field in _FIELDS_OF_A_RESULT) and '"event_type"' not in last_line:
        return None
    for candidate in (text, last_line):
        try:
            document = json.loads(candidate)
        except (ValueError, RecursionError):
            continue
        return document if isinstance(document, dict) and _is_result(document) else None
    return None


def _is_result(document: JsonObject) -> bool:
    is_terminal = document.get("event_type") in {"result", "failure"}
    return "summary" not in document and (is_terminal or not _FIELDS_OF_A_RESULT.isdisjoint(document))


def _end_of(result: JsonObject) -> str:
    error = result.get("error")
    if isinstance(error, dict):
        return f"a run that ended with {error.get('type')}: {error.get('message')}"
    return "an empty result"


def _text_of(name: str) -> str:
    try:
        if name == STDIN:
            content = sys.stdin.buffer.read(MAX_FILE_BYTES + 1)
        else:
            with Path(name).open("rb") as file:
                content = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise UnreadableFile("the file", (error.strerror or str(error)).lower(), "a readable file") from error
    if len(content) > MAX_FILE_BYTES:
        raise UnreadableFile("the file", f"more than {MAX_FILE_BYTES} bytes", f"{MAX_FILE_BYTES} at most")
    encoding = "utf-16" if content.startswith(_UTF_16) else "utf-8-sig"
    try:
        return content.decode(encoding)
    except UnicodeDecodeError as error:
        place = f"byte {error.start}"
        raise UnreadableFile(place, "invalid UTF-8", "UTF-8 text") from error
