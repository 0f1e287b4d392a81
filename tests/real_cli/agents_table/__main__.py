"""Print the table of docs/agents.md: what was seen of each agent with one blueprint and a simulated model.

Run: python -m tests.real_cli.agents_table [NAME…] [--write] [--jobs N] [--only PROBE…]. With --write, the columns of
agents that are not named or not installed stay as they are. Exits with 1 if something that an executor declares was not
seen, and says what, with the run's own error.
"""

import argparse
import json
import platform
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

from tests.real_cli.agents_table.known_agents import AGENTS, ROOT
from tests.real_cli.agents_table.page import Column, document_with, standing_in, table_of
from tests.real_cli.agents_table.probe_runs import Bench
from tests.real_cli.agents_table.probing import PROBES, column_of

PAGE = ROOT / "docs" / "agents.md"


def main(arguments: Sequence[str]) -> int:
    """Probe, print the table, and write it into the page if that is asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="the agents; all that are installed by default")
    parser.add_argument("--write", action="store_true", help="replace the table of docs/agents.md")
    parser.add_argument("--jobs", type=int, default=2, help="how many agents are probed at a time")
    parser.add_argument("--only", action="append", choices=sorted(PROBES), help="this probe; repeatable")
    asked = parser.parse_args(arguments)
    if asked.write and asked.only:
        parser.error("--write needs all probes")
    agents = [agent for agent in AGENTS if not asked.names or agent.name in asked.names]
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="agents-") as folder, ThreadPoolExecutor(asked.jobs) as threads:
        benches = [Bench(agent, Path(folder, agent.name)) for agent in agents]
        slowest_first = sorted(benches, key=lambda bench: bench.agent.page != "acp-executors.md")
        found = threads.map(lambda bench: probed(bench, asked.only or list(PROBES)), slowest_first)
        by_name = {column.agent.name: column for column in found}
    columns = [by_name[agent.name] for agent in agents]
    document, day = PAGE.read_text(encoding="utf-8"), f"{datetime.now(UTC):%Y-%m-%d}"
    shown = standing_in(document) if asked.write else {}
    shown |= {column.agent.name: column.shown(day) for column in columns if column.version}
    table = table_of({agent: shown[agent.name] for agent in AGENTS if agent.name in shown})
    sys.stdout.write(f"{table}\n")
    sys.stderr.write(f"{time.monotonic() - began:.0f} s; {platform.platform()}, Python {platform.python_version()}\n")
    if asked.write:
        PAGE.write_text(document_with(document, table), encoding="utf-8")
    faults = [(column.agent.name, row, why) for column in columns for row, why in column.unkept.items()]
    for name, row, why in faults:
        sys.stderr.write(f"!! {name}, {row}: declared, and not seen: {why}\n")
    return int(bool(faults))


def probed(bench: Bench, probes: Sequence[str]) -> Column:
    """Return the column of an agent, and say in JSON how long it took."""
    bench.folder.mkdir()
    began = time.monotonic()
    column = column_of(bench, probes)
    told = {"agent": bench.agent.name, "seconds": round(time.monotonic() - began, 1), "took": column.seconds}
    sys.stderr.write(json.dumps(told) + "\n")
    return column


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
