"""One vetted schema meets one value: the verdict, and the words for it."""

from ao_protocol.output.judging.engine import FORMATS_KEYWORD, Engine, pattern_compiles
from ao_protocol.output.judging.explanation import explain
from ao_protocol.output.judging.formats import DRAFT_7_FORMATS
from ao_protocol.output.judging.references import schema_at
from ao_protocol.output.judging.steps import Site, pointer_below

__all__ = [
    "DRAFT_7_FORMATS",
    "FORMATS_KEYWORD",
    "Engine",
    "Site",
    "explain",
    "pattern_compiles",
    "pointer_below",
    "schema_at",
]
