"""Which version an invocation has, and how an older one becomes 3.0 (SPEC 2)."""

import re
from typing import Any

from description import SCHEMA_VERSIONS
from errors import RunFailed

Version = tuple[int, int]

FORM = re.compile(r"(0|[1-9][0-9]{0,5})\.(0|[1-9][0-9]{0,5})")
NEWEST = SCHEMA_VERSIONS[0]
BEFORE_PARAMETERS = (2, 1)


def version_of(document: dict[str, Any]) -> Version:
    """Return the version of an invocation.

    Raises:
        RunFailed: it has none, or one that is not spoken.
    """
    said = document.get("schema_version")
    form = FORM.fullmatch(said) if isinstance(said, str) else None
    if form is None:
        message = f"schema_version is {said!r}; write two numbers, such as {NEWEST}"
        problem = f"$.schema_version: {said!r} is not of the form major.minor"
        raise RunFailed("invalid_invocation", message, details={"problems": [problem]})
    version = int(form[1]), int(form[2])
    if version[0] not in {_parsed(spoken)[0] for spoken in SCHEMA_VERSIONS}:
        message = f"schema_version {said} is not supported; supported are {', '.join(SCHEMA_VERSIONS)}"
        details = {"requested": said, "supported": SCHEMA_VERSIONS}
        raise RunFailed("unsupported_schema_version", message, details=details)
    return version


def announced(version: Version) -> str:
    """Return what `run_started` says to an invocation of a version: never a newer one."""
    newest = max(_parsed(spoken) for spoken in SCHEMA_VERSIONS if _parsed(spoken)[0] == version[0])
    major, minor = min(newest, version)
    return f"{major}.{minor}"


def upgraded(document: dict[str, Any], version: Version) -> dict[str, Any]:
    """Return an invocation in the form of 3.0."""
    if version >= (3, 0):
        return document
    read = {name: value for name, value in document.items() if name not in {"prompt", "output_schema_hint", "control"}}
    if version <= BEFORE_PARAMETERS and document.get("prompt") is not None:
        read["parameters"] = {"prompt": document["prompt"]}
    blueprint = document.get("agent_blueprint")
    designed = isinstance(blueprint, dict) and (blueprint.get("output_schema") or blueprint.get("output_format"))
    hint = document.get("output_schema_hint")
    if hint is not None and not designed:
        read |= {"output_schema": hint, "output_schema_source": "inline"}
    return read


def _parsed(spoken: str) -> Version:
    major, minor = spoken.split(".")
    return int(major), int(minor)
