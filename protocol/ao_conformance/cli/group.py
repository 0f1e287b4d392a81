"""The group `ao conformance`, which loads each command on its use, and `explain`, which prints a requirement."""

import importlib
import json
import signal
import textwrap
from collections.abc import Iterator
from types import FrameType
from typing import Final, NoReturn

import click

from ao_protocol.published import Requirement, UnknownRequirement, Vector, load_vectors, requirement

COMMANDS: Final = {
    "run": ("ao_conformance.cli.suites:run_command", "Test an executor, in any language."),
    "smoke": ("ao_conformance.cli.suites:smoke_command", "Test the most frequently broken rules, in five seconds."),
    "explain": ("ao_conformance.cli.group:explain_command", "Print a requirement, its reason and its tests."),
    "codec": ("ao_conformance.cli.suites:codec_command", "Test a parser of protocol lines, without processes."),
    "runner": ("ao_conformance.cli.suites:runner_command", "Test a runner with hostile executors."),
}
_ENDING: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""The signals with which people and CI systems end a job."""
EXAMPLES: Final = """\b
Examples:
  ao conformance smoke -- ./ao-mine-exec
  ao conformance run -- ./ao-mine-exec
  ao conformance run --level standard --report html=report.html -- node mine.js
  ao conformance explain AOX-191"""
WIDTH: Final = 100
ANY_RUN_TEXT: Final = "In addition, every vector with events checks it."
EXPLAIN_EXAMPLES: Final = """\b
Examples:
  ao conformance explain AOX-191
  ao conformance explain flush
  ao conformance explain --json AOX-016"""


class ConformanceGroup(click.Group):
    """A group that imports a command on its use."""

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
    """End the executors and report the vectors that were played. Ignore further signals: `timeout` sends two."""
    for each in _ENDING:
        if signal.getsignal(each) is _interrupt_once:
            signal.signal(each, lambda *_: None)
    raise KeyboardInterrupt


@click.command("explain", epilog=EXPLAIN_EXAMPLES)
@click.argument("name", metavar="ID", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def explain_command(name: str | None, as_json: bool) -> None:
    """Print a requirement (AOX-nnn) or a vector: its text, its reason, and its tests."""
    if name is None:
        raise click.UsageError("Missing ID: name a requirement or a vector, as in: ao conformance explain AOX-191")
    vector = next((vector for vector in load_vectors() if vector["id"] == name), None)
    try:
        rules = [requirement(one) for one in (vector["requirements"] if vector else [name])]
    except UnknownRequirement as error:
        sentence = f"{error.args[0]}. No vector has this id either: ao conformance run --list"
        raise click.BadParameter(sentence, param_hint="ID") from error
    if as_json:
        fields = ("id", "keyword", "level", "section", "text", "why", "untestable")
        told = [
            {**{name: getattr(rule, name) for name in fields}, "vectors": [found["id"] for found in _of(rule)]}
            for rule in rules
        ]
        click.echo(json.dumps({"requirements": told, "vector": vector}, ensure_ascii=False, indent=2))
        return
    lines = [*(_told(vector) if vector else ())]
    for rule in rules:
        lines += _told_rule(rule, of_vector=vector is not None)
    click.echo("\n".join(lines))


def _of(rule: Requirement) -> list[Vector]:
    return [vector for vector in load_vectors() if rule.id in vector["requirements"]]


def _told_rule(rule: Requirement, *, of_vector: bool) -> Iterator[str]:
    yield click.style(f"{rule.id}  {rule.keyword}, {rule.level}, SPEC {rule.section} {rule.section_title}", bold=True)
    yield from _wrapped(rule.text)
    yield ""
    yield from _wrapped(f"Why: {rule.why}")
    yield ""
    if of_vector:
        return
    from ao_conformance.judging.judge import ANY_RUN

    if rule.untestable:
        yield from _wrapped(f"No vector: {rule.untestable}")
    for vector in _of(rule):
        yield f"  {vector['kind']:12} {vector['id']:36} {vector['title']}"
    if rule.id in ANY_RUN:
        yield from _wrapped(ANY_RUN_TEXT)
    if any(vector["kind"] == "process" for vector in _of(rule)):
        yield ""
        yield f"  Test it alone:  ao conformance run --only {rule.id} -- CMD"


def _told(vector: Vector) -> Iterator[str]:
    yield click.style(f"{vector['id']}  a vector of kind {vector['kind']}", bold=True)
    yield from _wrapped(vector["title"] + ".")
    if hint := vector.get("hint"):
        yield from _wrapped(f"Hint: {hint}")
    yield ""
    shown = {name: value for name, value in vector.items() if name not in {"id", "title", "kind", "hint"}}
    yield textwrap.indent(json.dumps(shown, ensure_ascii=False, indent=2), "  ")
    yield ""


def _wrapped(text: str) -> Iterator[str]:
    yield from textwrap.wrap(text, WIDTH, initial_indent="  ", subsequent_indent="  ", break_on_hyphens=False)
