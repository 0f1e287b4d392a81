"""Which tests need a containment that is not there, and why: the machine lacks it, or somebody wanted less."""

import os
from collections.abc import Mapping
from typing import Final

import pytest

from ao_runner.processes.containment import SETTING, Kind, probe

RANKS: Final[Mapping[Kind, int]] = {"process_group": 0, "lifeline": 1, "cgroup": 2}
LACKING: Final = {"lifeline": "only Linux has subreapers", "cgroup": "no cgroup may be divided on this machine"}


def reason_against(kind: Kind, environ: Mapping[str, str]) -> str:
    """Return why a run would not be contained so; empty where it would."""
    if RANKS[probe(environ).kind] >= RANKS[kind]:
        return ""
    if RANKS[probe({}).kind] >= RANKS[kind]:
        return f"{SETTING}={environ[SETTING]} is set, which is less than {kind}"
    return LACKING[kind]


def needs(kind: Kind) -> pytest.MarkDecorator:
    """Mark a test that needs a containment."""
    reason = reason_against(kind, os.environ)
    return pytest.mark.skipif(bool(reason), reason=reason)
