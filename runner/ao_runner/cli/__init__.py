"""The command line `ao`. This module must load where only the base package is installed, so it imports nothing big."""

import sys
from typing import Final

from ao_runner.cli.standard_streams import fill_closed_streams, have_stdout_wait
from ao_runner.errors import EXIT_INTERRUPTED

EXTRA_OF: Final = {
    "click": "cli",
    "platformdirs": "cli",
    "rich": "cli",
    "yaml": "cli",
    "httpx": "worker",
    "prometheus_client": "worker",
    "structlog": "worker",
}
NEEDS_EXTRA: Final = 'ao: this needs the package {name}; install it with: pip install "ao-executor-protocol[{extra}]"'
EXIT_USAGE: Final = 2


def main() -> None:
    """Run the command line and exit."""
    fill_closed_streams()
    have_stdout_wait()
    try:
        from ao_runner.cli.program import program

        program(prog_name="ao")
    except KeyboardInterrupt:
        sys.exit(EXIT_INTERRUPTED)  # before a command has begun
    except ModuleNotFoundError as error:
        name = (error.name or "").partition(".")[0]
        if name not in EXTRA_OF:
            raise
        print(NEEDS_EXTRA.format(name=name, extra=EXTRA_OF[name]), file=sys.stderr)  # noqa: T201  # click may not be there to do it
        sys.exit(EXIT_USAGE)
