"""Schema versions: which ones this package speaks, and which one a run will use (SPEC 2).

Versions are pairs of numbers and members of a list; they are never compared as text.
"""

import re
from collections.abc import Mapping
from typing import Final, NamedTuple, Self

_WRITTEN: Final = re.compile(r"(0|[1-9][0-9]{0,5})\.(0|[1-9][0-9]{0,5})")


class SchemaVersion(NamedTuple):
    """A protocol version `major.minor`. A new major changes meaning, a new minor only adds."""

    major: int
    minor: int

    @classmethod
    def parse(cls, text: object) -> Self:
        """Read a version such as `"3.0"`.

        Raises:
            MalformedSchemaVersion: `text` is not a string of two decimal numbers joined by a dot.
        """
        written = _WRITTEN.fullmatch(text) if isinstance(text, str) else None
        if written is None:
            raise MalformedSchemaVersion(text)
        return cls(int(written[1]), int(written[2]))

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}"


CURRENT: Final = SchemaVersion(3, 0)
SUPPORTED: Final = (CURRENT, SchemaVersion(2, 2), SchemaVersion(2, 1))


class MalformedSchemaVersion(ValueError):
    """`schema_version` is there, but is not written as `major.minor`."""

    def __init__(self, found: object) -> None:
        super().__init__(found)
        self.found = found

    def __str__(self) -> str:
        return f"schema_version: found {self.found!r}, expected a string such as {str(CURRENT)!r}"


class UnsupportedSchemaVersion(ValueError):
    """The major version is one that this package does not speak."""

    def __init__(self, requested: SchemaVersion) -> None:
        super().__init__(requested)
        self.requested = requested

    def __str__(self) -> str:
        return f"schema_version {self.requested} is not supported; supported are {', '.join(supported_texts())}"


def supported_texts() -> list[str]:
    """List the supported versions as they stand on the wire, newest first."""
    return [str(version) for version in SUPPORTED]


def negotiate(requested: SchemaVersion) -> SchemaVersion:
    """Return the version that a run will use: never newer than the one requested.

    Any minor of a known major is accepted (SPEC 2, AOX-012): what a newer minor adds is ignored.

    Raises:
        UnsupportedSchemaVersion: no version of that major is spoken here.
    """
    known = [version for version in SUPPORTED if version.major == requested.major]
    if not known:
        raise UnsupportedSchemaVersion(requested)
    return min(requested, max(known))


def announced_version(document: Mapping[str, object]) -> SchemaVersion:
    """Return what `run_started.schema_version` says for an invocation, also one that will be refused."""
    try:
        return negotiate(SchemaVersion.parse(document.get("schema_version")))
    except (MalformedSchemaVersion, UnsupportedSchemaVersion):
        return CURRENT
