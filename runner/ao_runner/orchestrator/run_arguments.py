"""The arguments of the tools that begin a run."""

import json
from contextlib import suppress
from typing import Any, ClassVar, Final

from pydantic import ConfigDict, model_validator

from ao_runner.runs.submission import AskedInJson

_OBJECTS: Final = {"parameters", "output_schema", "output_schema_options", "metadata", "labels"}


class RunArguments(AskedInJson):
    """What every door that reads JSON takes but a profile: an agent may not choose what confines another one."""

    model_config = ConfigDict(extra="forbid")

    asked: ClassVar[set[str]] = {*AskedInJson.model_fields} - {"profile"}
    """The fields that the server takes by the same names."""
    profile: ClassVar[None] = None  # type: ignore[misc]  # no field of these arguments
    parameters: dict[str, Any]
    mode: str = "sync"

    @model_validator(mode="before")
    @classmethod
    def _read(cls, given: dict[str, Any]) -> dict[str, Any]:
        """Read objects that are JSON texts: models often write an object as a string."""
        found = dict(given)
        for name in _OBJECTS & found.keys():
            with suppress(ValueError, TypeError, RecursionError):  # it is an object already, or no JSON
                found[name] = json.loads(found[name])
        return found
