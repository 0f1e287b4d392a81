"""Performs the probes of one agent, and makes cells of what they find."""

import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

from tests.real_cli.agents_table.one_blueprint import Cells
from tests.real_cli.agents_table.page import Column
from tests.real_cli.agents_table.probe_runs import Bench, NotSeen, Probe
from tests.real_cli.agents_table.probes_of_blueprint import ATTACHMENT, probe_blueprint
from tests.real_cli.agents_table.probes_of_questions import probe_parking, probe_questions
from tests.real_cli.agents_table.probes_of_sessions import (
    described,
    probe_cancel,
    probe_check,
    probe_cost_limit,
    probe_resume,
    probe_turn_limit,
    probe_turns,
)
from tests.real_cli.agents_table.probes_of_settings import probe_allowed_tools, probe_settings, probe_strategies

_BOOLEANS: Final = "resume multi_turn prepare cancel streaming check trace input input_parking"
"""The capabilities that are true or false."""
PROBES: Final[dict[str, Probe]] = {
    "blueprint": probe_blueprint,
    "resume": probe_resume,
    "cancel": probe_cancel,
    "check": probe_check,
    "turns": probe_turns,
    "turn-limit": probe_turn_limit,
    "cost-limit": probe_cost_limit,
    "questions": probe_questions,
    "parking": probe_parking,
    "strategies": probe_strategies,
    "settings": probe_settings,
    "allowed-tools": probe_allowed_tools,
}


def column_of(bench: Bench, probes: Sequence[str]) -> Column:
    """Return what was seen of an agent. A probe that fails leaves its rows untried, and its error in `faults`."""
    if not bench.agent.is_installed:
        return Column(bench.agent, "", {}, {}, {})
    cells: Cells = {}
    faults: dict[str, str] = {}
    seconds: dict[str, float] = {}
    for name in probes:
        began = time.monotonic()
        try:
            cells |= PROBES[name](bench)
        except NotSeen as fault:
            faults[name] = str(fault)
        except Exception as fault:  # noqa: BLE001  # one probe that fails must not lose what the others see
            faults[name] = f"{type(fault).__name__}: {fault}"
        seconds[name] = round(time.monotonic() - began, 1)
    return Column(bench.agent, bench.agent.version, cells, faults, declared_in(described(bench.agent)), seconds)


def declared_in(description: Mapping[str, Any]) -> dict[str, bool]:
    """Return by row of the table whether a description declares it. Rows about other promises are left out."""
    capabilities, settings = description["capabilities"], description["config_schema"].get("properties", {})
    media_types = (capabilities.get("attachments") or {}).get("media_types", ())
    listed = [f"strategy `{name}`" for name in capabilities["output_schema"]["strategies"]]
    listed += [f"setting `{name}`" for name in settings]
    known = {f"`{name}`": bool(capabilities.get(name)) for name in _BOOLEANS.split()}
    return known | {ATTACHMENT: "image/png" in media_types} | dict.fromkeys(listed, True)
