"""The settings that have one meaning in every `executor_config` (SPEC 7)."""

from collections.abc import Mapping
from typing import Any, Final, Literal

from ao_protocol.contracts.problems import Problem
from ao_protocol.documents import Description
from ao_protocol.json_path import ROOT, below
from ao_protocol.wire import JsonObject

COMMON_SETTINGS: Final = (
    "model",
    "reasoning_effort",
    "show_reasoning",
    "access",
    "allowed_tools",
    "additional_folders",
)
Access = Literal["read", "edit", "all"]


def settings_said(said: object) -> JsonObject:
    """Return the common settings that an object has as attributes, without those that are None."""
    values = {name: getattr(said, name) for name in COMMON_SETTINGS}
    return {name: value for name, value in values.items() if value is not None}


def undeclared_settings(config: Mapping[str, Any], description: Description) -> list[Problem]:
    """Return a problem for each common setting that is not in `properties` of the executor's `config_schema`."""
    known = declared_settings(description)
    names = [name for name in COMMON_SETTINGS if name in config and name not in known]
    return [Problem(below(ROOT, name), no_setting(name, description)) for name in names]


def declared_settings(description: Description) -> list[str]:
    """Return the names of the settings in `properties` of an executor's `config_schema`."""
    properties = description.config_schema.get("properties")
    return list(properties) if isinstance(properties, dict) else []


def no_setting(name: str, description: Description) -> str:
    """Return the message that an executor has no setting of a name, with those that it has."""
    has = ", ".join(declared_settings(description)) or "none"
    return f"{description.executor.name} has no setting {name!r}; it has {has}"
