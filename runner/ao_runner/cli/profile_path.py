"""The path of a profile as every process understands it: a run may be performed by one that works elsewhere."""

from pathlib import Path
from typing import Final

from ao_runner.discovery.locate import expanded

SUFFIXES: Final = frozenset({".yaml", ".yml", ".json"})


def with_whole_path(name_or_path: str) -> str:
    """Return a name as it is, and a path from the root on."""
    is_path = "/" in name_or_path or Path(name_or_path).suffix in SUFFIXES
    return str(expanded(name_or_path).absolute()) if is_path else name_or_path


def short_name(profile: str) -> str:
    """Return what people call a profile: its name, also where it is known by its path."""
    return Path(profile).stem if "/" in profile else profile
