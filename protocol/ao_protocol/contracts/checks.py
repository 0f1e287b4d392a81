"""The checks of schemas and of values. Their modules are imported at the first check: few runs have a schema."""

import json
from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

from ao_protocol.contracts.problems import Problem, is_interoperable

MAX_PROBLEMS: Final = 50


@dataclass(eq=False)
class InvalidSchema(ValueError):
    """A schema that cannot be a contract: it is not a Draft-7 schema, or validation by it might not end.

    `problems` lists the reasons, at least one. `path` and `message` are those of the first. The path is a place in the
    schema, such as `$.properties.severity.type`.
    """

    problems: tuple[Problem, ...]

    @property
    def path(self) -> str:
        """The path of the first problem."""
        return self.problems[0].path

    @property
    def message(self) -> str:
        """The message of the first problem."""
        return self.problems[0].message

    def __str__(self) -> str:
        return "; ".join(map(str, self.problems))


def check_schema(schema: object) -> None:
    """Check that a schema is acceptable as a contract.

    An acceptable schema is a JSON object that satisfies the Draft-7 metaschema, with at most 262,144 characters and 62
    levels. Its references stay inside and come to an end, its patterns can be matched, and one value takes at most
    20,000 checks. `$schema` is absent or that of Draft-7.

    Args:
        schema: Any value; a schema is an object.

    Raises:
        InvalidSchema: The schema is not acceptable. `problems` lists the problems of the first failed check, at most
            50.
    """
    from ao_protocol.contracts.vetting import MAX_SCHEMA_DEPTH, vetted_document, vetted_text

    if isinstance(schema, dict) and is_interoperable(schema, MAX_SCHEMA_DEPTH):
        vetted_text(json.dumps(schema))
    else:
        vetted_document(schema)


def validate(value: object, schema: Mapping[str, Any]) -> list[Problem]:
    """Return the problems of a value under a JSON Schema Draft-7.

    Args:
        value: Any JSON value.
        schema: A schema that `check_schema` accepts.

    Returns:
        The first 50 problems, each with a path such as `$.items[0].id`; empty if the value is valid.

    Raises:
        InvalidSchema: The schema is not acceptable.
    """
    return JUDGE.get()(value, schema)


def judge_at_once(value: object, schema: Mapping[str, Any]) -> list[Problem]:
    """Do what `validate` does outside of a process that serves others, for as long as it takes."""
    from ao_protocol.contracts.validation import validator_for

    return list(islice(validator_for(schema).problems(value), MAX_PROBLEMS))


JUDGE: Final = ContextVar("ao_judge", default=judge_at_once)
"""What `validate` does. A process that serves others replaces it around its calls, since it must not stand still."""
