"""What it costs to hang a process on a lifeline: from the start of `/bin/true` to its end, with one and without.

usage: python tests/benchmarks/containment.py [--rounds N]

Prints JSON: milliseconds (median) of both, played in turn, and their difference.
"""

import argparse
import json
import os
import platform
import select
import statistics
import time
from datetime import UTC, datetime

from ao_runner.spawn import Child

ENVIRONMENT = {"PATH": os.environ["PATH"]}


def milliseconds(*, lifeline: bool) -> float:
    began = time.perf_counter()
    with Child(["/bin/true"], ENVIRONMENT, lifeline=lifeline) as child:
        select.select([child.exit_fd], [], [])
    return (time.perf_counter() - began) * 1000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=30)
    rounds = parser.parse_args().rounds
    pairs = [(milliseconds(lifeline=True), milliseconds(lifeline=False)) for _ in range(rounds + 2)][2:]
    tied, bare = (statistics.median(column) for column in zip(*pairs, strict=True))
    report = {
        "date": datetime.now(UTC).date().isoformat(),
        "machine": f"{platform.system()}, Python {platform.python_version()}, {os.cpu_count()} cores",
        "milliseconds": {"on a lifeline": round(tied, 2), "bare": round(bare, 2)},
        "added_milliseconds": round(tied - bare, 2),
    }
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
