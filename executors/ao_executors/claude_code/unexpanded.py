"""Texts of MCP servers that the Claude CLI leaves as they are.

It expands `${NAME}` in every text of an entry, URLs and headers included, so that a blueprint could write a secret of
the CLI's environment into an argument (AOX-198).
"""

from typing import Any, Final

_DOLLAR: Final = "${AO_UNSET_VARIABLE:-$}"
"""The CLI replaces this text by a dollar sign, the default of an unset variable, and does not expand the result."""


def unexpanded(entry: dict[str, Any]) -> dict[str, Any]:
    """Return a server's entry whose texts are what they were when the CLI has expanded them."""
    written: dict[str, Any] = _escaped(entry)
    if "headers" in written:
        written["headers"] = _escaped(written["headers"])  # the CLI expands headers again when it connects
    return written


def _escaped(value: Any) -> Any:  # noqa: ANN401  # any JSON
    match value:
        case str():
            return value.replace("${", _DOLLAR + "{")
        case dict():
            return {name: _escaped(held) for name, held in value.items()}
        case list():
            return [_escaped(held) for held in value]
        case _:
            return value
