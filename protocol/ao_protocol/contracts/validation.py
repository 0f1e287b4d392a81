"""Judging values by a schema: the story of one verdict, and the schemas that are kept compiled."""

import json
from collections.abc import Iterator, Mapping
from functools import lru_cache
from itertools import islice
from typing import Any, Final

from ao_protocol.contracts.problems import Problem, interoperability_problems, is_interoperable
from ao_protocol.contracts.schema_vetting import vetted_document
from ao_protocol.contracts.verdicts import Engine
from ao_protocol.framing import MAX_DEPTH
from ao_protocol.json_path import ROOT

MAX_PROBLEMS: Final = 50
MAX_COMPILED_SCHEMAS: Final = 64
MAX_VALUE_DEPTH: Final = MAX_DEPTH - 1
"""An answer travels inside an event, which is the first of the wire's 64 levels."""


class Validator:
    """A schema, vetted and compiled; made by `validator_for`.

    Values are what a strict JSON parser returns. Anything else, NaN, unsafe integers and lone surrogates among
    them, is invalid under every schema (RFC 7493), and so is a value nested more than 63 levels.
    """

    __slots__ = ("_engine",)

    def __init__(self, document: dict[str, Any]) -> None:
        self._engine = Engine(document)

    def is_valid(self, value: object) -> bool:
        """Tell whether the schema accepts a value. Never raises, whatever the value."""
        return is_interoperable(value, MAX_VALUE_DEPTH) and self._engine.accepts(value)

    def problems(self, value: object) -> Iterator[Problem]:
        """Yield why a value is refused, lazily and in a fixed order; nothing exactly when `is_valid`."""
        if not is_interoperable(value, MAX_VALUE_DEPTH):
            return interoperability_problems(value, MAX_VALUE_DEPTH)
        if self._engine.accepts(value):
            return iter(())
        from ao_protocol.contracts.validation_errors import explain

        return explain(self._engine, ROOT, value)


def validate(value: object, schema: Mapping[str, Any]) -> list[Problem]:
    """Return why a Draft-7 schema refuses a value.

    Args:
        value: Any JSON value.
        schema: A schema that `check_schema` accepts.

    Returns:
        The first 50 problems, each with its path such as `$.items[0].id`; none when the value is valid.

    Raises:
        InvalidSchema: the schema is none that can be enforced.
    """
    return list(islice(validator_for(schema).problems(value), MAX_PROBLEMS))


def is_valid(value: object, schema: Mapping[str, Any]) -> bool:
    """Tell whether a Draft-7 schema accepts a value.

    Raises:
        InvalidSchema: the schema is none that can be enforced.
    """
    return validator_for(schema).is_valid(value)


def validator_for(schema: Mapping[str, Any]) -> Validator:
    """Return the compiled schema. The last 64 are kept, by their text: a copy costs nothing, a change is seen.

    Raises:
        InvalidSchema: the schema is none that can be enforced.
    """
    try:
        text = json.dumps(schema)
    except (TypeError, ValueError, RecursionError):
        # Vetting says what no JSON can be made of.
        return Validator(vetted_document(schema))
    return _compiled(text)


@lru_cache(maxsize=MAX_COMPILED_SCHEMAS)
def _compiled(text: str) -> Validator:
    return Validator(vetted_document(json.loads(text)))
