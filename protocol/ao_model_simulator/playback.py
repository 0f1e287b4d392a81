"""The choice of the next answer, and the comparison of a request with its expectation. No sockets, no clock."""

import unicodedata
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from ao_model_simulator.model_request import ModelRequest, Verdict, nearest_provider
from ao_model_simulator.script import Answer, Expectation, Script

SHOWN_CHARS: Final = 300


def find_missing_fields(request: ModelRequest) -> list[str]:
    """Return one sentence for each field that the API requires and the request does not have."""
    if not isinstance(request.body, dict):
        return ["the body is not a JSON object"]
    provider = nearest_provider(request.path)
    missing = [name for name in provider.required_fields if not request.fields.get(name)]
    return [f"the body has no {name!r}, which {provider.title} requires" for name in missing]


def find_mismatches(expectation: Expectation | None, request: ModelRequest) -> list[str]:
    """Return the differences between a request and an expectation.

    Args:
        expectation: The expectation of an answer; None matches every request.
        request: The request.

    Returns:
        One sentence for each field that does not match, `field: difference`; empty if all match.
    """
    if expectation is None:
        return []
    return [*_value_mismatches(expectation, request), *_text_mismatches(expectation, request)]


def _value_mismatches(expectation: Expectation, request: ModelRequest) -> Iterator[str]:
    values: list[tuple[str, object, object]] = [
        ("model", expectation.model, request.model),
        ("stream", expectation.stream, request.wants_stream),
        ("messages_count", expectation.messages_count, len(request.messages)),
        ("last_user_equals", expectation.last_user_equals, request.last_user_text),
    ]
    for name, expected, found in values:
        if expected is not None and expected != found:
            shown = ascii if _look_alike(expected, found) else repr
            yield f"{name}: expected {shown(expected)}, found {_shorten(found, shown=shown)}"
    offered = request.tool_names
    for name in expectation.tool_names_include or ():
        if name not in offered:
            yield f"tool_names_include: {name!r} is not among {offered}"
    for name in expectation.tool_names_exclude or ():
        if name in offered:
            yield f"tool_names_exclude: {name!r} is among {offered}"


def _text_mismatches(expectation: Expectation, request: ModelRequest) -> Iterator[str]:
    texts = [
        ("system_contains", expectation.system_contains, request.system_text),
        ("last_user_contains", expectation.last_user_contains, request.last_user_text),
        ("conversation_contains", expectation.conversation_contains, request.conversation_text),
        ("tool_result_contains", expectation.tool_result_contains, request.tool_result_text),
        ("any_tool_result_contains", expectation.any_tool_result_contains, request.all_tool_results_text),
        ("files_contain", expectation.files_contain, request.files_text),
        ("schema_contains", expectation.schema_contains, request.schemas_text),
    ]
    for name, expected, found in texts:
        for wanted in _listed(expected):
            if wanted not in found:
                yield f"{name}: {wanted!r} is not in {_shorten(found, end=name.startswith('conversation'))}"
    for wanted in _listed(expectation.conversation_contains_once):
        if (times := request.conversation_text.count(wanted)) != 1:
            yield f"conversation_contains_once: {wanted!r} is there {times} times"
    absences = [
        ("system_lacks", expectation.system_lacks, request.system_text),
        ("last_user_lacks", expectation.last_user_lacks, request.last_user_text),
        ("conversation_lacks", expectation.conversation_lacks, request.conversation_text),
    ]
    for name, lacks, found in absences:
        for unwanted in _listed(lacks):
            if unwanted in found:
                yield f"{name}: {unwanted!r} is in {_shorten(_around(found, unwanted))}"
    ending = expectation.system_ends_with
    if ending is not None and not request.system_text.rstrip().endswith(ending.rstrip()):
        yield f"system_ends_with: expected {ending!r} at the end of {_shorten(request.system_text, end=True)}"


def _listed(texts: str | list[str] | None) -> list[str]:
    return [texts] if isinstance(texts, str) else texts or []


def _look_alike(expected: object, found: object) -> bool:
    """Return whether two texts differ only in the composition of characters, which is invisible in print."""
    both = isinstance(expected, str) and isinstance(found, str)
    return both and unicodedata.normalize("NFC", str(expected)) == unicodedata.normalize("NFC", str(found))


def _around(text: str, piece: str) -> str:
    begin = max(text.index(piece) - SHOWN_CHARS // 2, 0)
    return ("…" if begin else "") + text[begin : begin + max(SHOWN_CHARS, len(piece)) - 1]


def _shorten(found: object, *, end: bool = False, shown: Callable[[object], str] = repr) -> str:
    """Return a value for a message, shortened: a system prompt may have thousands of characters."""
    if not isinstance(found, str) or len(found) <= SHOWN_CHARS:
        return shown(found)
    part = f"…{found[-SHOWN_CHARS:]}" if end else f"{found[:SHOWN_CHARS]}…"
    return f"{shown(part)} ({len(found)} characters)"


@dataclass(frozen=True, slots=True)
class Decision:
    """The outcome of a request by the script: an answer, or the reasons why it has none.

    `answer_index` is the index, in the script, of the answer that was given or did not match. After a mismatch the same
    answer is the next one.
    """

    verdict: Verdict
    answer: Answer | None = None
    answer_index: int | None = None
    problems: tuple[str, ...] = ()


class Playback:
    """The playback of a script: each request receives the next answer if it matches the answer's expectation."""

    def __init__(self, script: Script) -> None:
        self._script = script
        self._index = 0
        self._given_of_current = 0
        self._asked = 0
        self.given = 0

    def decide(self, request: ModelRequest) -> Decision:
        """Return the outcome of a request for a model's answer."""
        self._asked += 1
        if missing := find_missing_fields(request):
            problems = tuple(f"request {self._asked}: {text}" for text in missing)
            return Decision(Verdict.UNEXPECTED, problems=problems)
        if self._index >= len(self._script.answers):
            total = sum(_times(answer) for answer in self._script.answers)
            problem = f"request {self._asked} is not in the script ({total} {'answer' if total == 1 else 'answers'})"
            return Decision(Verdict.UNEXPECTED, problems=(problem,))
        index, answer = self._index, self._script.answers[self._index]
        if mismatches := find_mismatches(answer.expect, request):
            where = f"request {self._asked}: answers[{index}].expect"
            problems = tuple(f"{where}.{text}" for text in mismatches)
            return Decision(Verdict.MISMATCHED, answer_index=index, problems=problems)
        self.given += 1
        self._given_of_current += 1
        if answer.repeat != "forever" and self._given_of_current >= answer.repeat:
            self._index += 1
            self._given_of_current = 0
        return Decision(Verdict.ANSWERED, answer, index)

    @property
    def left(self) -> int:
        """The number of answers that were not given. One that repeats forever counts until it was given once."""
        rest = [_times(answer) for answer in self._script.answers[self._index :]]
        return max(0, sum(rest) - self._given_of_current)


def _times(answer: Answer) -> int:
    return 1 if answer.repeat == "forever" else answer.repeat
