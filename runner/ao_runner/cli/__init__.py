"""The command line `ao`. This module must load where only the base package is installed, so it imports nothing big."""

import sys
from typing import Final

IN_EXTRA: Final = frozenset({"click", "platformdirs", "rich", "yaml"})
NEEDS_EXTRA: Final = (
    'ao: the command line needs the package {name}; install it with: pip install "ao-executor-protocol[cli]"'
)
EXIT_USAGE: Final = 2


def main() -> None:
    """Run the command line and exit."""
    try:
        from ao_runner.cli.program import program

        program(prog_name="ao")
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] not in IN_EXTRA:
            raise
        print(NEEDS_EXTRA.format(name=error.name), file=sys.stderr)  # noqa: T201  # click may not be there to do it
        sys.exit(EXIT_USAGE)
