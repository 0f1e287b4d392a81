"""What open pages cost the API: the time of `GET /runs?limit=20` with none and with many open lists of runs.

usage: python -m tests.benchmarks.open_pages [--pages N] [--seconds S]

Prints JSON. Each page has its stream and asks for the number of the inbox every five seconds, as a browser does. Runs
of a scripted agent begin one behind the other during each measurement, so the lists change.
"""

import argparse
import json
import os
import platform
import statistics
import tempfile
import threading
import time
from datetime import UTC, datetime
from pathlib import Path

import httpx

from tests.process.server.conftest import Served

SCRIPT = {"answers": [{"tools": [{"name": "Read", "input": {}, "output": "x", "seconds": 0.3}], "text": "done"}]}


def measure(server: Served, seconds: float) -> list[float]:
    """Return the milliseconds of each request, two a second and more, while runs pass."""
    taken, until, run = [], time.monotonic() + seconds, None
    while time.monotonic() < until:
        if run is None or server.run(run)["completed_at"]:
            run = server.start("quick", {"prompt": "Go"})["run_id"]
        begin = time.perf_counter()
        server.client.get("/runs", params={"limit": 20}).raise_for_status()
        taken.append((time.perf_counter() - begin) * 1000)
        time.sleep(0.05)
    return taken


def watch(url: str, stop: threading.Event) -> None:
    """Behave as one open page until the end."""
    with httpx.stream("GET", f"{url}/ui/runs/stream", timeout=None, trust_env=False) as stream:  # noqa: S113  # endless
        for _ in stream.iter_raw():
            if stop.is_set():
                return


def poll(url: str, pages: int, stop: threading.Event) -> None:
    """Ask for the number of the inbox as often as all pages together."""
    with httpx.Client(base_url=url, trust_env=False) as client:
        while not stop.wait(5 / pages):
            client.get("/ui/inbox/count")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pages", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=15)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "home").mkdir()
        with Served(Path(folder) / "home", environ={"AO_STORE": "local"}) as server:
            server.add_agent({"name": "quick", "profile": "scripted", "executor_config": {"script": SCRIPT}})
            for run in [server.start("quick", {"prompt": "Go"})["run_id"] for _ in range(20)]:
                server.ended(run)
            alone = measure(server, given.seconds)
            stop = threading.Event()
            threads = [threading.Thread(target=watch, args=(server.url, stop), daemon=True) for _ in range(given.pages)]
            threads.append(threading.Thread(target=poll, args=(server.url, given.pages, stop), daemon=True))
            for one in threads:
                one.start()
            measure(server, 3)
            watched = measure(server, given.seconds)
            stop.set()
    median = [statistics.median(one) for one in (alone, watched)]
    figures = {
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        "python": platform.python_version(),
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "pages": given.pages,
        "median_ms": [round(one, 1) for one in median],
        "p95_ms": [round(statistics.quantiles(one, n=20)[-1], 1) for one in (alone, watched)],
        "times": round(median[1] / median[0], 2),
    }
    print(json.dumps(figures, indent=2))


if __name__ == "__main__":
    main()
