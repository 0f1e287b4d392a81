"""Invocations of schema 2.1 and 2.2 in the shape of 3.0 (SPEC 2.3)."""

from typing import Final

from pydantic import JsonValue

from ao_protocol.version import SchemaVersion

_FIRST_WITH_PARAMETERS: Final = SchemaVersion(2, 2)


def upgrade_invocation(document: dict[str, JsonValue], version: SchemaVersion) -> dict[str, JsonValue]:
    """Return the document as 3.0 would have written it. A document of 3.x is returned as it is.

    2.1 has `prompt` where later versions have `parameters`. `output_schema_hint` becomes the run's own schema:
    in those versions the coordinator enforced it, in 3.0 the executor does. It never replaced the agent's own
    contract, and beside one it goes. Their stdin carried no control lines.
    """
    if version.major >= 3:
        return document
    upgraded = dict(document)
    prompt = upgraded.pop("prompt", None) if version < _FIRST_WITH_PARAMETERS else None
    if prompt is not None:
        upgraded["parameters"] = {"prompt": prompt}
    hint = upgraded.pop("output_schema_hint", None)
    if hint is not None and not _has_its_own_contract(upgraded.get("agent_blueprint")):
        upgraded |= {"output_schema": hint, "output_schema_source": "inline"}
    upgraded.pop("control", None)
    return upgraded


def _has_its_own_contract(blueprint: JsonValue) -> bool:
    fields = ("output_schema", "output_format")
    return isinstance(blueprint, dict) and any(blueprint.get(field) is not None for field in fields)
