"""The first question: is it a Draft-7 schema at all?"""

from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Final

from ao_protocol.output.judging import FORMATS_KEYWORD, Engine, Site, explain
from ao_protocol.output.problems import Problem

METASCHEMA_URI: Final = "http://json-schema.org/draft-07/schema#"

_FORMATS_LEFT_OPEN: Final = {FORMATS_KEYWORD: "annotate"}
"""Vetting judges patterns and references itself."""


def metaschema_problems(schema: object, path: str) -> Iterator[Problem]:
    """Yield where a schema breaks the Draft-7 metaschema; `path` is the schema's own place."""
    if _quick_engine().accepts("", schema):
        return iter(())
    engine = _wordy_engine()
    return explain(Site(engine, "", engine.document, path, schema))


@lru_cache(maxsize=1)
def _quick_engine() -> Engine:
    return Engine({"$ref": METASCHEMA_URI, **_FORMATS_LEFT_OPEN})


@lru_cache(maxsize=1)
def _wordy_engine() -> Engine:
    # Only a refusal needs the metaschema's text, which takes longer to import than to judge by.
    from jsonschema_specifications import REGISTRY  # type: ignore[import-untyped]  # it ships no types

    metaschema: dict[str, Any] = dict(REGISTRY.contents(METASCHEMA_URI))
    kept = {keyword: rule for keyword, rule in metaschema.items() if keyword not in {"$id", "$schema"}}
    return Engine(kept | _FORMATS_LEFT_OPEN)
