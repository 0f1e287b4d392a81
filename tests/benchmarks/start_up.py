"""How soon an executor says its first word and is done, `ao run` asks it, and `ao` gives its help, against imports.

usage: python tests/benchmarks/start_up.py [--rounds N]

Prints JSON: milliseconds (median) of each command, of CPU of a whole run, and the ratios that matter. The commands are
run in turn, round by round, so that a change in the machine's speed meets all of them. What a run without a schema
costs besides the toolkit is Python's own start, `site` and the event loop: see `python -c 'import asyncio'`. The CPU of
`ao run` is that of its own process, until it writes the first byte to the stdin of the executor. Least times say most
on a machine that others use, too.
"""

import argparse
import json
import os
import platform
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from ao_executors.core import answer_relay

INVOCATION = b'{"schema_version":"3.0","mode":"start","parameters":{"prompt":"Hi"},"control":{"stdin":"closed"}}\n'
WITH_A_SCHEMA = INVOCATION.replace(
    b'"control"', b'"agent_blueprint":{"name":"a","parameters_schema":{"type":"object"}},"control"'
)
AT_ONCE = 100
UNTIL_THE_FIRST_BYTE = """
import os, sys, time
real = os.write
def write(descriptor, data):
    if descriptor > 2 and b'"mode"' in bytes(data):
        os.write = real
        print("CPU", time.process_time() * 1000, file=sys.stderr)
    return real(descriptor, data)
os.write = write
from ao_runner.cli import main
main()
"""
BLUEPRINT = {"name": "greeter", "system_prompt": "You greet."}
HOME = tempfile.TemporaryDirectory(prefix="ao-start-up-")  # removed at the exit
FOLDER = Path(HOME.name)


def installed(name: str) -> str:
    return str(Path(sys.executable).with_name(name))


def milliseconds_of(command: list[str]) -> float:
    began = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=bare_environment())
    return (time.perf_counter() - began) * 1000


def milliseconds_to_event(executor: str, event_type: bytes) -> float:
    began = time.perf_counter()
    with subprocess.Popen(
        [installed(executor)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=bare_environment()
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(INVOCATION)
        process.stdin.flush()
        for line in process.stdout:
            if b'"event_type":"' + event_type in line:
                took = (time.perf_counter() - began) * 1000
                process.stdin.close()
                process.stdout.read()
                return took
    raise RuntimeError(f"{executor} ended without {event_type.decode()}")


def cpu_milliseconds_of(command: list[str], given: bytes = b"") -> float:
    """Return what a process has used, from its start to its exit."""
    reader, writer = os.pipe()
    os.write(writer, given)
    os.close(writer)
    with open(os.devnull, "wb") as nowhere:  # noqa: PTH123  # a device
        process = subprocess.Popen(command, stdin=reader, stdout=nowhere, stderr=nowhere, env=bare_environment())
    os.close(reader)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise RuntimeError(f"{command} ended with {process.returncode}")
    return (used.ru_utime + used.ru_stime) * 1000


def cpu_milliseconds_to_first_byte() -> float:
    """Return what `ao run` has used when it sends the invocation to an executor."""
    blueprint = FOLDER / "greeter.json"
    blueprint.write_text(json.dumps(BLUEPRINT))
    command = [sys.executable, "-c", UNTIL_THE_FIRST_BYTE, "run", str(blueprint), "-p", "Hi", "--executor", "echo"]
    environment = {**bare_environment(), "AO_HOME": str(FOLDER)}
    done = subprocess.run(command, check=True, capture_output=True, stdin=subprocess.DEVNULL, env=environment)
    return next(float(line.split()[1]) for line in done.stderr.splitlines() if line.startswith(b"CPU"))


def cpu_milliseconds_of_answer_tool() -> float:
    """Return what the program that an agent starts as the MCP server of `submit_answer` uses, until it ends."""
    path = FOLDER / "socket"
    path.unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        server.listen()  # a connection that waits here is closed with it
        command = [sys.executable, "-I", "-S", answer_relay.__file__, str(path)]
        return cpu_milliseconds_of(command, b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}\n')


def seconds_of_many(command: list[str]) -> float:
    """Return how long so many runs take that are all started at once."""
    began = time.perf_counter()
    running = []
    for _ in range(AT_ONCE):
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=bare_environment()
        )
        assert process.stdin is not None
        with suppress(BrokenPipeError):  # one that does not read may have ended
            process.stdin.write(INVOCATION)
            process.stdin.close()
        running.append(process)
    for process in running:
        process.wait()
    return time.perf_counter() - began


def bare_environment() -> dict[str, str]:
    return {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}


MEASURED: dict[str, Callable[[], float]] = {
    "python -c pass": lambda: milliseconds_of([sys.executable, "-c", "pass"]),
    "python -c 'import pydantic'": lambda: milliseconds_of([sys.executable, "-c", "import pydantic"]),
    "python -c 'from pydantic import BaseModel'": lambda: milliseconds_of(
        [sys.executable, "-c", "from pydantic import BaseModel"]
    ),
    "echo: first event": lambda: milliseconds_to_event("ao-echo-exec", b"run_started"),
    "echo: result": lambda: milliseconds_to_event("ao-echo-exec", b"result"),
    "claude-code: first event": lambda: milliseconds_to_event("ao-claude-code-exec", b"run_started"),
    "claude-code: describe": lambda: milliseconds_of([installed("ao-claude-code-exec"), "describe"]),
    "CPU: python -c pass": lambda: cpu_milliseconds_of([sys.executable, "-c", "pass"]),
    "CPU: python -c 'import asyncio'": lambda: cpu_milliseconds_of([sys.executable, "-c", "import asyncio"]),
    "CPU: python -c 'from pydantic import BaseModel'": lambda: cpu_milliseconds_of(
        [sys.executable, "-c", "from pydantic import BaseModel"]
    ),
    "CPU: echo": lambda: cpu_milliseconds_of([installed("ao-echo-exec")], INVOCATION),
    "CPU: echo with a parameters_schema": lambda: cpu_milliseconds_of([installed("ao-echo-exec")], WITH_A_SCHEMA),
    "CPU: import claude_agent_sdk": lambda: cpu_milliseconds_of([sys.executable, "-c", "import claude_agent_sdk"]),
    "CPU: import ao_executors.claude_code.sdk": lambda: cpu_milliseconds_of(
        [sys.executable, "-c", "import ao_executors.claude_code.sdk"]
    ),
    "CPU: ao run, to the first byte for the executor": cpu_milliseconds_to_first_byte,
    "CPU: the server of submit_answer": cpu_milliseconds_of_answer_tool,
    "ao --help": lambda: milliseconds_of([installed("ao"), "--help"]),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    rounds = parser.parse_args().rounds
    taken: dict[str, list[float]] = {name: [] for name in MEASURED}
    for _ in range(rounds):
        for name, measure in MEASURED.items():
            taken[name].append(measure())
    medians = {name: statistics.median(times) for name, times in taken.items()}
    pydantic = medians["python -c 'import pydantic'"]
    at_once = {
        "python -c 'import asyncio'": seconds_of_many([sys.executable, "-c", "import asyncio"]),
        "echo (aim 3 s on two idle cores)": seconds_of_many([installed("ao-echo-exec")]),
    }
    report = {
        "date": datetime.now(UTC).date().isoformat(),
        "machine": f"{platform.platform(terse=True)}, {os.cpu_count()} cores, Python {platform.python_version()}",
        "rounds": rounds,
        "least_milliseconds": {name: round(min(times), 1) for name, times in taken.items()},
        "median_milliseconds": {name: round(median, 1) for name, median in medians.items()},
        f"seconds_of_{AT_ONCE}_at_once": {name: round(seconds, 2) for name, seconds in at_once.items()},
        "ratios": {
            "echo: first event / import pydantic (aim 1.5)": round(medians["echo: first event"] / pydantic, 2),
            "claude-code: first event / import pydantic (aim 1.5)": round(
                medians["claude-code: first event"] / pydantic, 2
            ),
            "echo: first event / python -c pass": round(medians["echo: first event"] / medians["python -c pass"], 2),
            "echo: result / import pydantic": round(medians["echo: result"] / pydantic, 2),
            "CPU: echo / import asyncio (aim 1.5)": round(
                medians["CPU: echo"] / medians["CPU: python -c 'import asyncio'"], 2
            ),
            "CPU: echo / echo with a parameters_schema": round(
                medians["CPU: echo"] / medians["CPU: echo with a parameters_schema"], 2
            ),
            "CPU: the SDK without mcp / with it": round(
                medians["CPU: import ao_executors.claude_code.sdk"] / medians["CPU: import claude_agent_sdk"], 2
            ),
        },
    }
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
