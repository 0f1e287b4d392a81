"""What open pages cost the API: the time of `GET /runs?limit=20` with none and with many open lists of runs.

usage: python -m tests.benchmarks.open_pages [--pages N] [--seconds S]

Prints JSON. Each page has its stream and asks for the number of the inbox every five seconds, as a browser does. Runs
of a scripted agent begin one behind the other during each measurement, so the lists change.
"""

import argparse
import json
import multiprocessing
import os
import platform
import selectors
import socket
import statistics
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import cast

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


def watch(port: int, pages: int) -> None:
    """Behave as open pages until the process is ended. Streams are read and dropped, as cheaply as possible."""
    ready = selectors.DefaultSelector()
    for _ in range(pages):
        stream = socket.create_connection(("127.0.0.1", port))
        stream.sendall(f"GET /ui/runs/stream HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode())
        ready.register(stream, selectors.EVENT_READ)
    asked = time.monotonic()
    with httpx.Client(base_url=f"http://127.0.0.1:{port}", trust_env=False) as client:
        while True:
            for key, _ in ready.select(0.02):
                cast("socket.socket", key.fileobj).recv(1 << 20)
            if time.monotonic() - asked >= 5 / pages:
                asked += 5 / pages
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
            others = multiprocessing.Process(target=watch, args=(server.port, given.pages), daemon=True)
            others.start()
            measure(server, 3)
            watched = measure(server, given.seconds)
            others.terminate()
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
