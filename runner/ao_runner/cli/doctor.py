"""`ao doctor`: is everything in place on this machine?"""

import json
import os
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Final

import click

from ao_runner.cli.executors import ask_all
from ao_runner.cli.options import examples, home_option, json_option
from ao_runner.diagnosis import Finding, Verdict, examine_executor, examine_machine
from ao_runner.discovery.locate import list_executors

MARKS: Final[dict[Verdict, tuple[str, str]]] = {"ok": ("✓", "green"), "note": ("·", "yellow"), "problem": ("✗", "red")}


@click.command(
    "doctor", epilog=examples("ao doctor", "ao doctor --json | jq '.findings[] | select(.verdict != \"ok\")'")
)
@json_option("Print the findings as a JSON object.")
@home_option
def command(as_json: bool, home: Path) -> None:
    """Check the installation: store, containment and executors. Exit codes: 0 ready, 1 something is missing."""
    findings = []
    for finding in examine(home):
        findings.append(finding)
        if not as_json:
            _show(finding)
    problems = [finding for finding in findings if finding.verdict == "problem"]
    if as_json:
        document = {"ok": not problems, "findings": [asdict(finding) for finding in findings]}
        click.echo(json.dumps(document, ensure_ascii=False))
    elif problems:
        ways = {finding.advice or finding.text for finding in problems}  # of one way, it is one thing that is missing
        click.secho(f"\n{len(ways)} to fix", fg="red")
    sys.exit(1 if problems else 0)


def examine(home: Path) -> Iterator[Finding]:
    """Look at the machine, then at every executor."""
    yield from examine_machine(home, os.environ)
    executors = list(list_executors().values())
    if not executors:
        advice = 'pip install "ao-executor-protocol[cli,claude]", or put an ao-NAME-exec on PATH'
        yield Finding("executors", "problem", "none found", advice)
    for asked in ask_all(executors):
        if asked.description is None:
            yield Finding(f"executor {asked.executor.name}", "problem", asked.problem or "", None)
        else:
            yield from examine_executor(asked.executor, asked.description, os.environ)


def _show(finding: Finding) -> None:
    mark, colour = MARKS[finding.verdict]
    click.secho(f"{mark} {finding.about}: ", fg=colour, nl=False)
    click.echo(finding.text)
    if finding.advice and finding.verdict != "ok":
        click.echo(f"    {finding.advice}")
