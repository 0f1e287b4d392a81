"""Finding the value in an answer (SPEC 9.4): whole values only, the best rank first, the last of that rank."""

import re
from collections.abc import Iterator
from typing import Any

from contracts import Contract
from ijson import NotIJson, decode_value, levels_of
from json_schema import is_same, problems_of

Candidate = tuple[int, Any, list[str]]

WHOLE, TAG, FENCE, BARE, OTHER_FENCE = range(5)
MAX_VALUE_LEVELS = 60
JSON_LANGUAGES = {"", "json", "jsonc", "json5"}
ANSWER_TAG = re.compile(
    r"<(answer|final(?:[_-](?:answer|output|result))?|json(?:[_-]output)?|output|response|result"
    r"|structured[_-](?:output|response))>(.*?)</\1>",
    re.DOTALL | re.IGNORECASE,
)
NOT_THE_ANSWER = re.compile(
    r"<(think|thinking|reasoning|scratchpad|analysis|example|examples|tool_call|tool_use|tool_result)>(.*?)(</\1>|\Z)",
    re.DOTALL,
)
FENCED = re.compile(
    r"^ {0,3}(?P<fence>`{3,}|~{3,})[ \t]*(?P<language>[\w+-]*)[^\n`]*\n"
    r"(?P<text>.*?)(?:^ {0,3}(?P=fence)[`~]*[ \t]*$|\Z)",
    re.MULTILINE | re.DOTALL,
)
STRING_OR_BRACKET = re.compile(r'"(?:[^"\\\n]|\\.)*"|[\[\]{}]')
BRACKET = re.compile(r"[\[{]")
COMMENT = re.compile(r'("(?:[^"\\]|\\.)*")|//[^\n]*|/\*.*?\*/', re.DOTALL)
TRAILING_COMMA = re.compile(r'("(?:[^"\\]|\\.)*")|,(?=\s*[\]}])', re.DOTALL)
NOTHING = "$: no JSON value could be read from the answer; it must be there whole"


class Reading:
    """What an answer was read as: a value, or the problems of the best value that was there."""

    def __init__(self, value: Any, problems: list[str], *, is_ambiguous: bool = False, edits: list[str]) -> None:
        self.value = value
        self.problems = problems
        self.is_ambiguous = is_ambiguous
        self.edits = edits


def read_answer(text: str, contract: Contract) -> Reading:
    """Return the value of an answer under a contract."""
    reading = _read(text, contract, is_lenient=False)
    if reading.problems and contract.is_lenient:
        lenient = _read(text, contract, is_lenient=True)
        return reading if lenient.problems else lenient
    return reading


def judge(value: Any, contract: Contract) -> list[str]:
    """Return what is wrong with a value under a contract."""
    if is_same(value, contract.schema):
        return ["$: this is the schema itself and not an answer to it"]
    return problems_of(contract.schema, value)


def _read(text: str, contract: Contract, *, is_lenient: bool) -> Reading:
    candidates = list(_candidates(text, is_lenient=is_lenient, is_whole_text=contract.is_whole_text))
    problems: list[str] = []
    for rank in sorted({rank for rank, _, _ in candidates}):
        valid = []
        for _, value, edits in (one for one in candidates if one[0] == rank):
            found = judge(value, contract)
            problems = problems or found
            if not found:
                valid.append((value, edits))
        if valid:
            value, edits = valid[-1]
            is_ambiguous = any(not is_same(value, other) for other, _ in valid)
            if is_ambiguous and contract.refuses_ambiguous:
                return Reading(None, ["$: several values that fit differ; answer with one"], edits=[])
            return Reading(value, [], is_ambiguous=is_ambiguous, edits=edits)
    return Reading(None, problems or [NOTHING], edits=[])


def _candidates(text: str, *, is_lenient: bool, is_whole_text: bool) -> Iterator[Candidate]:
    whole = list(_value_of(text, WHOLE, is_lenient=is_lenient))
    yield from whole
    if whole or is_whole_text:
        return
    rest = NOT_THE_ANSWER.sub("\n", text)
    for tag in ANSWER_TAG.finditer(rest):
        yield from _in_a_region(tag[2], TAG, is_lenient=is_lenient)
    rest = ANSWER_TAG.sub("\n", rest)
    for fence in FENCED.finditer(rest):
        rank = FENCE if fence["language"].lower() in JSON_LANGUAGES else OTHER_FENCE
        yield from _value_of(fence["text"], rank, is_lenient=is_lenient)
    for span in _bare_spans(FENCED.sub("\n", rest)):
        yield from _value_of(span, BARE, is_lenient=is_lenient)


def _in_a_region(text: str, rank: int, *, is_lenient: bool) -> Iterator[Candidate]:
    fence = FENCED.search(text)
    whole = list(_value_of(fence["text"] if fence else text, rank, is_lenient=is_lenient))
    yield from whole
    if not whole:
        for span in _bare_spans(text):
            yield from _value_of(span, rank, is_lenient=is_lenient)


def _value_of(text: str, rank: int, *, is_lenient: bool) -> Iterator[Candidate]:
    edits: list[str] = []
    if is_lenient:
        text = _edited(
            _edited(text, COMMENT, "a comment was left out", edits),
            TRAILING_COMMA,
            "a trailing comma was left out",
            edits,
        )
    try:
        value = decode_value(text.strip("\ufeff\u200b\u00a0 \t\r\n"))
    except NotIJson:
        return
    if levels_of(value) <= MAX_VALUE_LEVELS:
        yield rank, value, edits


def _bare_spans(text: str) -> Iterator[str]:
    """Yield what stands between the outermost brackets; one that is never closed takes the rest with it."""
    opened = BRACKET.search(text)
    while opened:
        depth = 0
        for found in STRING_OR_BRACKET.finditer(text, opened.start()):
            depth += {"{": 1, "[": 1, "}": -1, "]": -1}.get(found[0], 0)
            if depth == 0:
                break
        else:
            return
        yield text[opened.start() : found.end()]
        opened = BRACKET.search(text, found.end())


def _edited(text: str, pattern: re.Pattern[str], what: str, edits: list[str]) -> str:
    def left_out(found: re.Match[str]) -> str:
        if found[1] is not None:
            return found[1]
        edits.append(f"{what} at character {found.start()}")
        return ""

    return pattern.sub(left_out, text)
