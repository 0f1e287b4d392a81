"""A batch of many runs from a file to the queue, and back as a table, with SQLite and with PostgreSQL.

usage: python -m tests.benchmarks.batches [--runs N] [--times T]

Prints JSON: medians in seconds of whole commands, their start included, of an agent with a `parameters_schema`:
`submit` of a CSV file, `results` as CSV while the runs wait, `rerun` of the failed runs, all of them, and `one`, a
submission of one run, for comparison. Both stores sync each commit to the same disk.
"""

import argparse
import csv
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from ao_runner.store.opening import StorePlace
from tests.postgres_server import PostgresServer

AO: Final = str(Path(sys.executable).with_name("ao"))
AGENT: Final = {
    "name": "triage",
    "parameters_schema": {
        "type": "object",
        "required": ["id", "subject"],
        "properties": {"id": {"type": "integer", "maximum": 10**9}, "subject": {"type": "string"}},
        "additionalProperties": False,
    },
}


def call(place: StorePlace, *arguments: str) -> tuple[float, str]:
    """Return how many seconds a command took, and what it printed."""
    environment = {**os.environ, "AO_HOME": str(place.home), "AO_STORE": place.url}
    began = time.monotonic()
    done = subprocess.run([AO, *arguments], env=environment, capture_output=True, text=True, check=True)
    return time.monotonic() - began, done.stdout.strip()


def measure(place: StorePlace, folder: Path) -> dict[str, float]:
    agent, options = str(folder / "agent.json"), ("--profile", "echo")
    one, _ = call(place, "submit", agent, *options, "--param", "id=1", "--param", "subject=x")
    submit, batch = call(place, "submit", agent, *options, "--batch", str(folder / "tickets.csv"))
    results, _ = call(place, "results", batch, "--format", "csv")
    with place.open() as store:
        store.write("UPDATE runs SET status = 'failed' WHERE batch_id = ?", (batch,))
    rerun, _ = call(place, "submit", "--rerun-failed", batch)
    return {"one": one, "submit": submit, "results": results, "rerun": rerun}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--times", type=int, default=5)
    given = parser.parse_args()
    found: dict[str, dict[str, float]] = {}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        server = stack.enter_context(PostgresServer(fsync="on"))
        (folder / "agent.json").write_text(json.dumps(AGENT))
        with (folder / "tickets.csv").open("w", newline="") as file:
            csv.writer(file).writerows([["id", "subject"], *([number, "broken " * 30] for number in range(given.runs))])
        for engine in ("sqlite", "postgres"):
            rounds = []
            for number in range(given.times):
                home = folder / f"{engine}-{number}"
                place = StorePlace(home) if engine == "sqlite" else StorePlace(home, server.new_database())
                rounds.append(measure(place, folder))
            found[engine] = {name: round(statistics.median(one[name] for one in rounds), 2) for name in rounds[0]}
    print(json.dumps({"runs": given.runs, "cores": os.cpu_count(), **found}))


if __name__ == "__main__":
    main()
