"""What extraction returns, how it refuses, and how much an answer may ask of its reader."""

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    import pydantic

    JsonValue: TypeAlias = pydantic.JsonValue
else:
    JsonValue = object  # pydantic takes 60 ms to import

MAX_CHARACTERS: Final = 16 * 1024 * 1024
"""The size of the largest invocation; an answer that is larger still is refused unread."""

MAX_SEARCHED_CHARACTERS: Final = 1024 * 1024
"""A longer answer is JSON from its first character to its last, or refused: a search takes microseconds a character."""

MAX_DEPTH: Final = 200
"""Levels of containers. The C decoder recurses once a level, so the cap is checked before it is called.

No value is deeper; up to two levels less are always read (the innermost are counted together).
"""

MAX_INTEGER_DIGITS: Final = 1000
"""CPython refuses integers above 4300 digits with a plain ValueError, or takes quadratic time over them."""

MAX_CANDIDATES: Final = 20_000
"""Each value found costs memory; an answer with more of them is an attack or a data dump."""

MAX_BREAKS: Final = 100_000
"""Each place where a container breaks costs a step that no bulk operation can save."""

MAX_UNWRAPPED: Final = 3
"""How often a JSON string that holds JSON is opened."""


class Source(StrEnum):
    """Where in the answer the value stood."""

    WHOLE = "whole"
    TAG = "tag"
    FENCE = "fence"
    BARE = "bare"


class Reason(StrEnum):
    """Why no value was found: what to tell the model, and whether asking again can help."""

    NO_CANDIDATE = "no_candidate"
    """The text holds nothing that begins like a JSON value."""
    TRUNCATED = "truncated"
    """The text ends inside a value. The same limit on output fails the same way again."""
    INVALID_JSON = "invalid_json"
    """Something begins like a JSON value and breaks the grammar."""
    TOO_DEEP = "too_deep"
    TOO_LARGE = "too_large"
    TOO_MANY_VALUES = "too_many_values"
    SEVERAL_VALUES = "several_values"
    """The text is a sequence of different values, and no schema says which one is meant."""
    DUPLICATE_KEYS = "duplicate_keys"
    """One object gives a key two different values: which one is meant is a guess."""
    NUMBER_OUT_OF_RANGE = "number_out_of_range"
    """A number overflows a double, or an integer has more digits than are read."""
    SCHEMA_ECHO = "schema_echo"
    """The model repeated the schema in place of an answer."""
    NOT_AN_ANSWER = "not_an_answer"
    """JSON stands only where no answer is given: thinking, examples, tool calls, pieces of a broken value."""


_SENTENCES: Final = {
    Reason.NO_CANDIDATE: "The answer holds no JSON value",
    Reason.TRUNCATED: "The answer breaks off inside a JSON value",
    Reason.INVALID_JSON: "The answer holds no well-formed JSON value",
    Reason.TOO_DEEP: "The JSON in the answer is nested too deep",
    Reason.TOO_LARGE: "The answer is too large to be read",
    Reason.TOO_MANY_VALUES: "The answer holds too many JSON values to choose from",
    Reason.SEVERAL_VALUES: "The answer is a sequence of different JSON values where one is wanted",
    Reason.DUPLICATE_KEYS: "An object in the answer gives one key two different values",
    Reason.NUMBER_OUT_OF_RANGE: "A number in the answer is out of range",
    Reason.SCHEMA_ECHO: "The answer repeats the schema instead of an answer that matches it",
    Reason.NOT_AN_ANSWER: "JSON stands only in places that do not give the answer",
}


@dataclass(frozen=True, slots=True)
class Extraction:
    """The JSON value that an answer gives.

    `value` is what a strict JSON parser returns for a piece of the text, changed in nothing but what `edits`
    lists. `valid` tells whether it keeps the schema; without a schema it is true. It is false only when no
    value in the text is valid, so that the caller can tell the model what was wrong with the best one.
    `ambiguous` is true when the text gives different valid values, or breaks off in a later one.
    `edits` is empty unless lenient reading was asked for; each entry says what was read otherwise, and where.
    """

    value: JsonValue
    source: Source
    valid: bool = True
    ambiguous: bool = False
    edits: tuple[str, ...] = ()


@dataclass(eq=False)
class NoJsonFound(Exception):
    """The text gives no JSON value that may be taken for the answer: the model did not deliver."""

    reason: Reason
    detail: str = ""

    def __str__(self) -> str:
        return f"{_SENTENCES[self.reason]}: {self.detail}" if self.detail else _SENTENCES[self.reason]
