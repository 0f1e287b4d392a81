"""The public names of the Python packages (docs/api), and what can be passed to them."""

import inspect
from enum import EnumType
from importlib import import_module
from typing import Final

from pydantic import BaseModel

MODULES: Final = (
    "ao_protocol",
    "ao_protocol.agent_response",
    "ao_executors.core",
    "ao_executors.core.program",
    "ao_runner.agents",
    "ao_runner.temporal",
    "ao_model_simulator",
    "ao_model_simulator.pytest_plugin",
)


def public_names() -> dict[str, dict[str, list[str]]]:
    """Return the parameters of each public name by module and name; a class has those of its construction.

    An enumeration has its members.
    """
    return {module: {name: _parameters(module, name) for name in _names(module)} for module in MODULES}


def _names(module: str) -> list[str]:
    imported = import_module(module)
    own = [name for name, value in vars(imported).items() if getattr(value, "__module__", None) == module]
    return sorted(getattr(imported, "__all__", [name for name in own if not name.startswith("_")]))


def _parameters(module: str, name: str) -> list[str]:
    value = getattr(import_module(module), name)
    if isinstance(value, EnumType):
        return sorted(value.__members__)
    if isinstance(value, type) and issubclass(value, BaseModel):
        given = ((name, field.alias or name) for name, field in value.model_fields.items())
        return [alias if alias.isidentifier() else name for name, alias in given]
    try:
        return list(inspect.signature(value).parameters) if callable(value) else []
    except ValueError:  # an exception without a constructor of its own
        return []
