"""What a person is told of an event. Pure: an event in, lines of text out."""

import json
import re
from dataclasses import dataclass, replace
from typing import Final, Literal

from pydantic import JsonValue

from ao_protocol.events import (
    Body,
    Event,
    InputRequested,
    Log,
    Message,
    OutputValidation,
    Result,
    RetryScheduled,
    RunStarted,
    SessionBound,
    ToolFinished,
    ToolStarted,
    Usage,
    UsageFigures,
)
from ao_runner.run_events import NOT_DESCRIBED

Tone = Literal["plain", "dim", "good", "warn", "bad"]

MAX_LINE_CHARACTERS: Final = 160
MAX_MESSAGE_LINES: Final = 6
MAX_SHOWN_ERRORS: Final = 10

_CONTROL: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")


@dataclass(frozen=True, slots=True)
class Line:
    """A line for a person. Its mark stands before it and says at a glance what it is about."""

    mark: str
    text: str
    tone: Tone = "plain"


class Narrator:
    """Tells a run event by event.

    An answer is held back until it is clear whether it is the result, which is shown by itself and need not be told.
    """

    def __init__(self) -> None:
        self._held_back: Message | None = None

    def tell(self, event: Event) -> list[Line]:
        """Return the lines for an event; none for what only a program wants to know."""
        body = event.body
        if isinstance(body, Usage):
            return []
        held, self._held_back = self._held_back, _answer(body)
        told = [] if held is None or _is_result(held, body) else _message(held)
        if isinstance(body, OutputValidation):
            return told + _validation(body)
        line = _one_line(body)
        return told + ([line] if line else [])


def _answer(body: Body) -> Message | None:
    return body if isinstance(body, Message) and body.role == "assistant" else None


def _is_result(message: Message, body: Body) -> bool:
    if not isinstance(body, Result):
        return False
    text = _text(message)
    if body.result_text is not None:
        return text == body.result_text
    try:
        return bool(json.loads(text) == body.result_data)
    except ValueError:
        return False


def _text(message: Message) -> str:
    return "".join(block.text for block in message.content)


def _one_line(body: Body) -> Line | None:
    line = None
    match body:
        case RunStarted(executor=executor) if executor.version != NOT_DESCRIBED:
            line = Line("·", f"{executor.name} {executor.version} started", "dim")
        case SessionBound(model=str(model)):
            line = Line("·", f"model {model}", "dim")
        case ToolStarted(tool_name=name, tool_input=tool_input):
            line = Line("→", f"{name} {_brief(tool_input)}".rstrip())
        case ToolFinished(tool_name=name, status=status, error=error) if status != "completed":
            line = Line("!", f"{name} {status}{f': {error}' if error else ''}", "warn")
        case RetryScheduled(error=error, attempt=attempt, delay_seconds=delay):
            line = Line("…", f"{error.type}: {error.message}; retry {attempt} in {delay:g} s", "warn")
        case Log(level="warning" | "error" as level, message=message):
            line = Line("!", message, "warn" if level == "warning" else "bad")
        case InputRequested(title=title):
            line = Line("?", title, "warn")
    return line and replace(line, text=shorten(line.text))


def attempts_of(verdict: OutputValidation) -> tuple[int, int]:
    """Return which attempt a verdict is about, and how many there are at most."""
    return verdict.attempt, verdict.attempt + verdict.retries_left


def describe_usage(usage: UsageFigures | None) -> str:
    """Return tokens and cost in a few words; empty when nothing is known."""
    if usage is None or not (usage.input_tokens or usage.output_tokens):
        return ""
    cost = f", ${usage.cost_usd:.4f}" if usage.cost_usd is not None else ""
    return f"{usage.input_tokens:,} tokens in, {usage.output_tokens:,} out{cost}"


def shorten(text: str, limit: int = MAX_LINE_CHARACTERS) -> str:
    """Return text as one harmless line that fits: no control characters, no line ends."""
    line = " ".join(plain_text(text).split())
    return line if len(line) <= limit else f"{line[: limit - 1]}…"


def plain_text(text: str) -> str:
    """Return text without what could steer a terminal; line ends and tabs stay."""
    return _CONTROL.sub("", text)


def _message(message: Message) -> list[Line]:
    text = plain_text(_text(message)).strip()
    lines = [line for line in text.splitlines() if line.strip()]
    shown = [Line("│", shorten(line)) for line in lines[:MAX_MESSAGE_LINES]]
    more = len(lines) - MAX_MESSAGE_LINES
    return shown + ([Line("│", f"… {more} more lines", "dim")] if more > 0 else [])


def _validation(verdict: OutputValidation) -> list[Line]:
    attempt, attempts = attempts_of(verdict)
    if verdict.valid:
        return [Line("✓", f"attempt {attempt} of {attempts}: the answer fits the schema", "good")]
    next_step = "asking again" if verdict.retries_left else "giving up"
    head = Line("✗", f"attempt {attempt} of {attempts}: the answer does not fit the schema; {next_step}", "warn")
    errors = [Line(" ", f"  {shorten(error)}", "warn") for error in verdict.errors[:MAX_SHOWN_ERRORS]]
    more = len(verdict.errors) - MAX_SHOWN_ERRORS
    return [head, *errors, *([Line(" ", f"  … {more} more", "warn")] if more > 0 else [])]


def _brief(value: JsonValue) -> str:
    if value is None or value == {}:
        return ""
    if isinstance(value, dict) and len(value) == 1:
        (only,) = value.values()
        return only if isinstance(only, str) else json.dumps(only, ensure_ascii=False)
    return json.dumps(value, ensure_ascii=False)
