"""Texts of MCP servers that the Claude CLI leaves as they are.

It expands `${NAME}` in every text of an entry, URLs and headers included, so that a blueprint could write a secret of
the CLI's environment into an argument (AOX-198).
"""

from typing import Final

from ao_protocol.wire import JsonObject, map_texts

_DOLLAR: Final = "${AO_UNSET_VARIABLE:-$}"
"""The CLI replaces this text by a dollar sign, the default of an unset variable, and does not expand the result."""


def unexpanded(entry: JsonObject) -> JsonObject:
    """Return a server's entry whose texts are what they were when the CLI has expanded them."""
    written = {name: map_texts(value, _escaped) for name, value in entry.items()}
    if "headers" in written:
        written["headers"] = map_texts(written["headers"], _escaped)  # the CLI expands them again when it connects
    return written


def _escaped(text: str) -> str:
    return text.replace("${", _DOLLAR + "{")
