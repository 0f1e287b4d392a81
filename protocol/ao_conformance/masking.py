"""Removal of the tester's secrets from a result: of the values of variables whose names are those of secrets."""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from enum import Enum
from typing import Any, Final, TypeVar

from ao_protocol.addresses import is_secret_name
from ao_protocol.redaction import Redactor

Value = TypeVar("Value")
_SAID: Final = frozenset(
    {"command", "description", "expected", "found", "name", "reason", "reproduce", "text", "version"}
)
"""The fields of a result with texts of the executable or of the tester."""


def redactor_of(environment: Mapping[str, str]) -> Redactor:
    """Return the redactor for the secrets among some variables. It leaves values with fewer than 8 characters."""
    return Redactor({name: value for name, value in environment.items() if is_secret_name(name)})


def masked(value: Value, redactor: Redactor) -> Value:
    """Return a result, or a part of one, with `***` in place of each secret."""
    return _masked(value, redactor, said=False) if redactor.values else value


def _masked(value: Any, redactor: Redactor, *, said: bool) -> Any:  # noqa: ANN401  # any part of a result
    match value:
        case Enum():
            return value
        case str():
            return redactor.text(value) if said else value
        case list() | tuple():
            return type(value)(_masked(each, redactor, said=said) for each in value)
        case Mapping():
            return {redactor.text(name): _masked(each, redactor, said=True) for name, each in value.items()}
        case _ if is_dataclass(value) and not isinstance(value, type):
            parts = {each.name: getattr(value, each.name) for each in fields(value)}
            return replace(value, **{name: _masked(part, redactor, said=name in _SAID) for name, part in parts.items()})
        case _:
            return value
