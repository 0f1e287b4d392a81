"""Appends to an outbox until it is killed, and writes a line `run seq` for each key and sync that is durable."""

import sys
from itertools import count
from pathlib import Path

from ao_runner.outbox.outbox import Outbox, OutboxOptions
from ao_runner.run_events import RunKey

RUNS = ("a", "b", "c")


def main() -> None:
    outbox = Outbox(Path(sys.argv[1]), OutboxOptions(quota_bytes=10_000_000, cache_bytes=0))
    appended = dict.fromkeys(RUNS, 0)
    for state in outbox.open_keys():
        appended[state.key.run_id] = state.durable_seq
    for turn in count(1):
        for run_id, seq in appended.items():
            lines = [b"%s %d" % (run_id.encode(), seq + number) * (turn % 5 + 1) for number in range(1, turn % 7 + 2)]
            outbox.append(RunKey(run_id, 1), seq + 1, lines)
            appended[run_id] += len(lines)
        durable = outbox.sync()
        report = "".join(f"{key.run_id} {seq}\n" for key, seq in durable.items())
        sys.stdout.write(report)
        sys.stdout.flush()
        first = RunKey(RUNS[0], 1)
        outbox.acknowledge(first, durable[first] // 2)


if __name__ == "__main__":
    main()
