"""`ao conformance`: which commands there are; each is loaded when it is used."""

import importlib
import signal
from types import FrameType
from typing import Final, NoReturn

import click

COMMANDS: Final = {
    "run": ("ao_conformance.cli.run:command", "Test an executor, in any language."),
    "smoke": ("ao_conformance.cli.smoke:command", "Test the most frequently broken rules, in five seconds."),
    "explain": ("ao_conformance.cli.explain:command", "Print a requirement, its reason and its tests."),
    "codec": ("ao_conformance.cli.codec:command", "Test a parser of protocol lines, without processes."),
    "runner": ("ao_conformance.runner_suite.cli:runner_command", "Test a runner with hostile executors."),
}

_ENDING: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""What people and CI systems end a job with."""

EXAMPLES: Final = """\b
Examples:
  ao conformance smoke -- ./ao-mine-exec
  ao conformance run -- ./ao-mine-exec
  ao conformance run --level standard --report html=report.html -- node mine.js
  ao conformance explain AOX-191"""


class ConformanceGroup(click.Group):
    """A group that imports a command when it is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in the order of the table."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command and return it."""
        if cmd_name not in COMMANDS:
            return None
        module, _, attribute = COMMANDS[cmd_name][0].partition(":")
        command: click.Command = getattr(importlib.import_module(module), attribute)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the table, without importing anything."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, summary) for name, (_, summary) in COMMANDS.items()])


@click.command("conformance", cls=ConformanceGroup, epilog=EXAMPLES)
def command() -> None:
    """Test whether a program conforms to the AO executor protocol.

    The program is tested as a black box, over stdin and stdout, with a simulated model: offline, without cost, and
    with reproducible verdicts.
    """
    for number in _ENDING:
        if signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler):
            signal.signal(number, _interrupt_once)


def _interrupt_once(number: int, frame: FrameType | None) -> NoReturn:
    """End the executors, and tell what was played. Another signal does not break that off: `timeout` sends two."""
    for each in _ENDING:
        if signal.getsignal(each) is _interrupt_once:
            signal.signal(each, lambda *_: None)
    raise KeyboardInterrupt
