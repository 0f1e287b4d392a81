"""Runs `ao` as it is, and tells how much memory it had at most.

usage: measured.py FILE ARGUMENT…      FILE gets the number of bytes
"""

import sys
from pathlib import Path

from ao_runner.cli.program import program


def most_memory_bytes() -> int:
    [line] = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM")]
    return int(line.split()[1]) * 1024


if __name__ == "__main__":
    try:
        program(sys.argv[2:], prog_name="ao")
    finally:
        Path(sys.argv[1]).write_text(str(most_memory_bytes()))
