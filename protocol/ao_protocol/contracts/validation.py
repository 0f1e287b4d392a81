"""Validation of values by a schema, and the cache of compiled schemas."""

import json
from collections.abc import Callable, Iterator, Mapping
from functools import cache, lru_cache
from typing import Any, Final

from ao_protocol.contracts.explanation import explain
from ao_protocol.contracts.problems import AS_A_STRING, Problem, interoperability_problems, is_interoperable
from ao_protocol.contracts.verdicts import Engine, seconds_a_character
from ao_protocol.contracts.vetting import Catalogue, costs_of, vetted_document, vetted_text
from ao_protocol.framing import MAX_DEPTH, MAX_SAFE_INTEGER
from ao_protocol.json_path import ROOT

MAX_COMPILED_SCHEMAS: Final = 64
MAX_VALUE_DEPTH: Final = MAX_DEPTH - 1
"""The maximum levels of an answer: it is inside an event, which is the first of the 64 levels of a line."""
QUICK_SECONDS: Final = 0.2
"""The maximum time for a value that is judged in a process that serves others."""
NO_STRING: Final = "the schema accepts no string here and has to ask for one, so say that no answer fits"


class Validator:
    """A checked and compiled schema. `validator_for` creates it.

    Values are those of a strict JSON parser. Any other value, such as NaN, an unsafe integer or a lone surrogate, is
    invalid under every schema (RFC 7493), and so is a value with more than 63 levels.
    """

    __slots__ = ("_engine", "_seconds_a_character")

    def __init__(self, document: dict[str, Any]) -> None:
        self._engine = Engine(document)
        self._seconds_a_character: float | None = None

    def is_quick(self, characters: int) -> bool:
        """Return whether every value of so many characters as JSON is judged in about 0.2 s, whatever it contains."""
        if self._seconds_a_character is None:
            costs = costs_of(Catalogue(self._engine.document), lambda node: seconds_a_character(node.schema))
            self._seconds_a_character = max(cost for _, cost in costs)
        return characters * self._seconds_a_character <= QUICK_SECONDS

    def is_valid(self, value: object) -> bool:
        """Return whether the schema accepts a value. This never raises, for any value."""
        return is_interoperable(value, MAX_VALUE_DEPTH) and self._engine.accepts(value)

    def problems(self, value: object) -> Iterator[Problem]:
        """Yield the problems of a value, lazily and in a fixed order. A valid value has no problems."""
        if not is_interoperable(value, MAX_VALUE_DEPTH):
            return interoperability_problems(value, MAX_VALUE_DEPTH, self._advice_on_integers(value))
        return iter(()) if self._engine.accepts(value) else explain(self._engine, ROOT, value)

    def _advice_on_integers(self, value: object) -> Callable[[str], str]:
        """Return the way out for an integer at a path that is too large: a string, if the schema accepts one there."""

        @cache
        def refused() -> set[str]:
            try:
                with_texts = json.loads(json.dumps(value), parse_int=_safe_or_text)
            except (TypeError, ValueError, RecursionError):
                return set()
            is_sound = is_interoperable(with_texts, MAX_VALUE_DEPTH)
            return {problem.path for problem in self.problems(with_texts)} if is_sound else set()

        return lambda path: NO_STRING if path in refused() else AS_A_STRING


def _safe_or_text(digits: str) -> int | str:
    is_safe = len(digits) < len(str(MAX_SAFE_INTEGER)) or abs(int(digits[:20])) <= MAX_SAFE_INTEGER
    return int(digits) if is_safe else digits


def is_valid(value: object, schema: Mapping[str, Any]) -> bool:
    """Return whether a JSON Schema Draft-7 accepts a value.

    Raises:
        InvalidSchema: The schema is not acceptable.
    """
    return validator_for(schema).is_valid(value)


def validator_for(schema: Mapping[str, Any]) -> Validator:
    """Return the compiled schema. The last 64 are cached by their text, so a copy is found and a change is noticed.

    Raises:
        InvalidSchema: The schema is not acceptable.
    """
    try:
        text = json.dumps(schema)
    except (TypeError, ValueError, RecursionError):
        # vetted_document reports what is not JSON.
        return Validator(vetted_document(schema))
    return _compiled(text)


@lru_cache(maxsize=MAX_COMPILED_SCHEMAS)
def _compiled(text: str) -> Validator:
    return Validator(vetted_text(text))
