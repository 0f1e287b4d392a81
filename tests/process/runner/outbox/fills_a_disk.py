"""Appends until the disk is full, acknowledges, goes on, and reports what happened as JSON.

usage: fills_a_disk.py FOLDER limit|disk
"""

import json
import resource
import sys
from pathlib import Path

from ao_runner.outbox.outbox import Outbox, OutboxOptions
from ao_runner.outbox.outbox_errors import OutboxUnwritable
from ao_runner.run_events import RunKey

DELIVERED = RunKey("delivered", 1)
WAITING = RunKey("waiting", 1)


def line(seq: int) -> bytes:
    return b"%06d" % seq * 50


def append_until_full(outbox: Outbox, key: RunKey) -> tuple[int, str]:
    seq = 0
    while True:
        outbox.append(key, seq + 1, [line(number) for number in range(seq + 1, seq + 11)])
        seq += 10
        try:
            outbox.sync()
        except OutboxUnwritable as full:
            return seq, str(full)


def main() -> None:
    folder, how = Path(sys.argv[1]), sys.argv[2]
    outbox = Outbox(folder, OutboxOptions(cache_bytes=0))
    keep_one = [line(1)]
    outbox.append(WAITING, 1, keep_one)
    outbox.sync()
    if how == "limit":
        resource.setrlimit(resource.RLIMIT_FSIZE, (250_000, resource.RLIM_INFINITY))
    seq, error = append_until_full(outbox, DELIVERED)
    durable = {state.key: state.durable_seq for state in outbox.open_keys()}[DELIVERED]
    outbox.append(WAITING, 2, [line(2)], ends=True)
    if how == "limit":
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    else:
        outbox.acknowledge(DELIVERED, durable)
    outbox.sync()
    outbox.close()
    sys.stdout.write(json.dumps({"seq": seq, "durable": durable, "error": error}))


if __name__ == "__main__":
    main()
