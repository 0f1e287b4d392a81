"""The published descriptions of the format, for any language: a JSON Schema and an XML Schema, as data."""

import json
from functools import cache
from importlib.resources import files
from typing import Final, cast

from ao_protocol.wire import JsonObject

_FOLDER: Final = files("ao_protocol.output.agent_response")


def response_schema() -> JsonObject:
    """Return the JSON Schema (Draft 7) of the JSON form, as a document of the caller's own."""
    return cast("JsonObject", json.loads(_schema_text()))  # what is published is an object; a test reads it


def response_xsd() -> str:
    """Return the XML Schema (1.0) of the XML form, as it is written in version 1.0 of the format."""
    return (_FOLDER / "agent_response.xsd").read_text(encoding="utf-8")


@cache
def _schema_text() -> str:
    return (_FOLDER / "agent_response.schema.json").read_text(encoding="utf-8")
