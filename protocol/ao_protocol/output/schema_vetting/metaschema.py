"""The first question: is it a Draft-7 schema at all?"""

from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Final

from ao_protocol.output.problems import Problem
from ao_protocol.output.verdicts import FORMATS_KEYWORD, Engine

METASCHEMA_URI: Final = "http://json-schema.org/draft-07/schema#"

_FORMATS_LEFT_OPEN: Final = {FORMATS_KEYWORD: "annotate"}
"""Vetting judges patterns and references itself."""


def metaschema_problems(schema: object, path: str) -> Iterator[Problem]:
    """Yield where a schema breaks the Draft-7 metaschema; `path` is the schema's own place."""
    if _quick_engine().accepts(schema):
        return iter(())
    from ao_protocol.output.validation_errors import explain

    return explain(_wordy_engine(), path, schema)


@lru_cache(maxsize=1)
def _quick_engine() -> Engine:
    return Engine({"$ref": METASCHEMA_URI, **_FORMATS_LEFT_OPEN})


@lru_cache(maxsize=1)
def _wordy_engine() -> Engine:
    from jsonschema import Draft7Validator

    metaschema: dict[str, Any] = dict(Draft7Validator.META_SCHEMA)
    kept = {keyword: rule for keyword, rule in metaschema.items() if keyword not in {"$id", "$schema"}}
    return Engine(kept | _FORMATS_LEFT_OPEN)
