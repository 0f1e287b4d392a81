"""Following `$ref`: in a vetted schema it is always `#` and a JSON pointer into the same document."""

import re
from typing import Final
from urllib.parse import unquote

from ao_protocol.output.judging.steps import Site

_INDEX: Final = re.compile(r"0|[1-9][0-9]{0,8}")


def dereferenced(site: Site) -> Site:
    """Return the site after following every reference at its top. Vetting has refused endless ones."""
    while isinstance(site.schema, dict) and "$ref" in site.schema:
        pointer = unquote(site.schema["$ref"].removeprefix("#"))
        site = site.at(pointer, schema_at(site.engine.document, pointer))
    return site


def schema_at(document: object, pointer: str) -> object:
    """Return what a JSON pointer (RFC 6901) names.

    Raises:
        LookupError: there is nothing at that place.
    """
    found = document
    for token in pointer.split("/")[1:]:
        step = token.replace("~1", "/").replace("~0", "~")
        match found:
            case dict():
                found = found[step]
            case list() if _INDEX.fullmatch(step):
                found = found[int(step)]
            case _:
                raise LookupError(pointer)
    return found
