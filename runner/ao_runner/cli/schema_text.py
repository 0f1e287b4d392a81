"""How schemas and sources are printed: whole, so that they can be piped on, and harmless to a terminal."""

import json
import sys
from typing import Final

import click
from pydantic import JsonValue

_STEERING: Final = {code: f"\\u{code:04x}" for code in range(0x7F, 0xA0)}
"""Control characters that JSON may hold as they are; written so they are the same JSON."""


def print_json(value: JsonValue) -> None:
    """Print JSON that people can read, in colours where they can be seen."""
    text = json.dumps(value, ensure_ascii=False, indent=2).translate(_STEERING)
    if sys.stdout.isatty():
        from rich.console import Console
        from rich.highlighter import JSONHighlighter

        Console(soft_wrap=True).print(JSONHighlighter()(text))
    else:
        click.echo(text)
