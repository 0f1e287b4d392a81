"""The sentences of the keywords that judge one value by themselves, worded as jsonschema words them."""

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Final, TypeAlias

from ao_protocol.output.judging.engine import MAX_BACKTRACKS, gives_up_on
from ao_protocol.output.judging.formats import DRAFT_7_FORMATS
from ao_protocol.output.judging.steps import Site, Steps
from ao_protocol.output.problems import listed, shown

Sentences: TypeAlias = Callable[[Site, str], Iterator[str]]


def explain_assertion(site: Site, keyword: str) -> Steps:
    """Yield the problems of a keyword of `SENTENCES`, if it is what refuses the value."""
    if not site.engine.keyword_accepts(site.pointer, keyword, site.schema[keyword], site.value):
        for sentence in SENTENCES[keyword](site, keyword):
            yield site.problem(sentence)


def _type(site: Site, keyword: str) -> Iterator[str]:
    types = site.schema[keyword]
    yield f"{shown(site.value)} is not of type {listed(types if isinstance(types, list) else [types])}"


def _const(site: Site, keyword: str) -> Iterator[str]:
    yield f"{shown(site.schema[keyword])} was expected"


def _pattern(site: Site, keyword: str) -> Iterator[str]:
    pattern = site.schema[keyword]
    if gives_up_on(pattern, site.value):
        yield f"{shown(site.value)} could not be matched with {shown(pattern)} in {MAX_BACKTRACKS} steps"
    else:
        yield f"{shown(site.value)} does not match {shown(pattern)}"


def _format(site: Site, keyword: str) -> Iterator[str]:
    yield f"{shown(site.value)} is not {DRAFT_7_FORMATS[site.schema[keyword]]}"


def _unique(site: Site, _keyword: str) -> Iterator[str]:
    yield f"{shown(site.value)} has non-unique elements"


def _required(site: Site, keyword: str) -> Iterator[str]:
    return (f"{shown(name)} is a required property" for name in site.schema[keyword] if name not in site.value)


def _against(middle: str) -> Sentences:
    def sentence(site: Site, keyword: str) -> Iterator[str]:
        yield f"{shown(site.value)} {middle} {shown(site.schema[keyword])}"

    return sentence


def _too_small(otherwise: str) -> Sentences:
    def sentence(site: Site, keyword: str) -> Iterator[str]:
        yield f"{shown(site.value)} {'should be non-empty' if site.schema[keyword] == 1 else otherwise}"

    return sentence


def _too_large(otherwise: str) -> Sentences:
    def sentence(site: Site, keyword: str) -> Iterator[str]:
        yield f"{shown(site.value)} {'is expected to be empty' if site.schema[keyword] == 0 else otherwise}"

    return sentence


SENTENCES: Final[Mapping[str, Sentences]] = MappingProxyType(
    {
        "type": _type,
        "enum": _against("is not one of"),
        "const": _const,
        "multipleOf": _against("is not a multiple of"),
        "minimum": _against("is less than the minimum of"),
        "maximum": _against("is greater than the maximum of"),
        "exclusiveMinimum": _against("is less than or equal to the minimum of"),
        "exclusiveMaximum": _against("is greater than or equal to the maximum of"),
        "minLength": _too_small("is too short"),
        "maxLength": _too_large("is too long"),
        "pattern": _pattern,
        "format": _format,
        "minItems": _too_small("is too short"),
        "maxItems": _too_large("is too long"),
        "uniqueItems": _unique,
        "minProperties": _too_small("does not have enough properties"),
        "maxProperties": _too_large("has too many properties"),
        "required": _required,
    }
)
"""For each keyword, what is wrong with a value that it refuses: one sentence, or one for each missing name."""
