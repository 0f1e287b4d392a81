"""Performs the probes of one agent, and makes cells of what they find."""

import json
import time
from collections.abc import Sequence

from tests.real_cli.agents_table.known_agents import Agent
from tests.real_cli.agents_table.one_blueprint import Cells
from tests.real_cli.agents_table.page import Column
from tests.real_cli.agents_table.probe_runs import Bench, NotSeen, Probe
from tests.real_cli.agents_table.probes_of_blueprint import probe_blueprint
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

PROBES: dict[str, Probe] = {
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
        return Column(bench.agent, "not installed here", {}, {}, {}, {})
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
    return Column(bench.agent, bench.agent.version, cells, faults, declared_by(bench.agent), seconds)


def declared_by(agent: Agent) -> dict[str, bool]:
    """Return by row of the table whether the executor declares it."""
    description = described(agent)
    capabilities = description["capabilities"]
    rows = {
        f"`{name}`": bool(value) for name, value in capabilities.items() if name not in ("output_schema", "attachments")
    }
    rows["`attachments`: a PNG"] = "image/png" in (capabilities.get("attachments") or {}).get("media_types", ())
    rows |= {f"strategy `{name}`": True for name in capabilities["output_schema"]["strategies"]}
    return rows | {
        f"setting `{name}`": True for name in json.loads(json.dumps(description["config_schema"])).get("properties", {})
    }
