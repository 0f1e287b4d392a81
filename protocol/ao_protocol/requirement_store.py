"""The requirements of a version, as data inside this package (SPEC, introduction).

Each is told word for word as SPEC.md tells it, with the reason for it and how to keep it; a test holds both together,
so that the set of a version cannot change unnoticed.
"""

import json
from dataclasses import dataclass
from difflib import get_close_matches
from importlib.resources import files
from typing import Final

from ao_protocol.schema_store import CURRENT_SCHEMAS

_CAPABILITY: Final = "capability:"


@dataclass(frozen=True, slots=True)
class Requirement:
    """One demand of the specification.

    `keyword` is `MUST` or `SHOULD`. `level` is `core`, `standard`, `runner` or `capability:x`. `section` is a number
    such as `2.2`. `text` is the demand in SPEC.md's words and markup; `why` tells an author what goes wrong without
    it and how to get it right. `untestable` is the reason why nobody can test it from outside, where that is so.
    """

    id: str
    keyword: str
    level: str
    section: str
    section_title: str
    text: str
    why: str
    untestable: str | None = None

    @property
    def capability(self) -> str | None:
        """The capability whose declaration makes this a duty; None where the level is no capability's."""
        return self.level.removeprefix(_CAPABILITY) if self.level.startswith(_CAPABILITY) else None


class UnknownRequirement(LookupError):
    """No requirement has that id in that version."""

    def __init__(self, name: str, version: str, near: list[str]) -> None:
        super().__init__(name, version, near)
        self.name = name
        self.version = version
        self.near = near

    def __str__(self) -> str:
        hint = f"near to it are {', '.join(self.near)}" if self.near else "ids look like AOX-016"
        return f"version {self.version} has no requirement {self.name!r}; {hint}"


def load_requirements(version: str = CURRENT_SCHEMAS) -> list[Requirement]:
    """Return the requirements of a version in the order of SPEC.md; none for an unknown version."""
    file = files("ao_protocol") / "requirements" / f"{version}.json"
    if not file.is_file():
        return []
    return [Requirement(**fields) for fields in json.loads(file.read_text(encoding="utf-8"))["requirements"]]


def requirement(name: str, version: str = CURRENT_SCHEMAS) -> Requirement:
    """Return the requirement with an id such as `AOX-016`.

    Raises:
        UnknownRequirement: naming the ids that look like it.
    """
    by_id = {known.id: known for known in load_requirements(version)}
    if name not in by_id:
        raise UnknownRequirement(name, version, get_close_matches(name.upper(), by_id, cutoff=0.8))
    return by_id[name]
