"""`anyOf` and `oneOf`: that no alternative fits, and what is wrong with the one that was meant."""

from typing import Any, Final

from ao_protocol.output.judging.references import dereferenced
from ao_protocol.output.judging.steps import Site, Steps
from ao_protocol.output.problems import listed, shown

_IDENTIFYING: Final = ("const", "enum")


def explain_any_of(site: Site) -> Steps:
    """Yield that no alternative accepts the value, then the way into the only one that can be meant."""
    alternatives = _alternatives(site, "anyOf")
    if not any(alternative.accepts() for alternative in alternatives):
        yield from _explain_none(site, alternatives)


def explain_one_of(site: Site) -> Steps:
    """Yield that no alternative accepts the value, as for `anyOf`, or that more than one does."""
    alternatives = _alternatives(site, "oneOf")
    accepting = [alternative for alternative in alternatives if alternative.accepts()]
    if not accepting:
        yield from _explain_none(site, alternatives)
    elif len(accepting) > 1:
        first, *others = (alternative.schema for alternative in accepting)
        yield site.problem(f"{shown(site.value)} is valid under each of {listed([*others, first])}")


def _alternatives(site: Site, keyword: str) -> list[Site]:
    return [site.part(keyword, index) for index in range(len(site.schema[keyword]))]


def _explain_none(site: Site, alternatives: list[Site]) -> Steps:
    yield site.problem(f"{shown(site.value)} is not valid under any of the given schemas")
    meant = [alternative for alternative in alternatives if _may_be_meant(alternative)]
    if len(meant) == 1:
        yield meant[0]


def _may_be_meant(alternative: Site) -> bool:
    """Tell whether the value has the type that an alternative asks for, and the constants that identify it."""
    site = dereferenced(alternative)
    if not isinstance(site.schema, dict):
        return False
    if not _agrees(site, ("type",)):
        return False
    return all(_agrees(member, _IDENTIFYING) for member in _identified_members(site))


def _identified_members(site: Site) -> list[Site]:
    if not isinstance(site.value, dict):
        return []
    properties: dict[str, Any] = site.schema.get("properties", {})
    return [dereferenced(site.member(name, "properties", name)) for name in properties if name in site.value]


def _agrees(site: Site, keywords: tuple[str, ...]) -> bool:
    if not isinstance(site.schema, dict):
        return True
    return all(
        site.engine.keyword_accepts(site.pointer, keyword, site.schema[keyword], site.value)
        for keyword in keywords
        if keyword in site.schema
    )
