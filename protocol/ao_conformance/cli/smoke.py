"""`ao conformance smoke -- CMD…`: the first look, while an executor is being written."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import click

from ao_conformance.cli.not_started import not_started
from ao_conformance.cli.options import base_option, jobs_option, read_base, read_variables, repeated, variables_option
from ao_conformance.cli.progress import Progress
from ao_conformance.cli.reporting import finish
from ao_conformance.cli.run import absolute
from ao_conformance.suite import Plan, run_suite
from ao_conformance.vectors import ProcessVector, load_process_vectors
from ao_conformance.verdict import Finding, VectorResult

LOOKED_AT: Final = frozenset(
    {
        "describe",
        "start",
        "noise",
        "flush",
        "unknown-fields",
        "unspoken-major-is-refused",
        "line-that-is-cut-short",
        "prompt-to-the-last-blank",
        "prompt-with-a-block",
        "prompt-with-a-demand",
        "bare-environment",
        "sigterm-ends-it",
    }
)
"""What goes wrong most often."""
PATIENCE_SECONDS: Final = 4.0
"""How long a vector is waited for beside the time that it works: an executor without a model needs a second at most."""

EXAMPLES: Final = """\b
Examples:
  ao conformance smoke -- ./ao-mine-exec
  ao conformance smoke -- node mine.js
  ao conformance smoke --base base.json --env MY_SETTING=1 -- ./ao-mine-exec

\b
For the whole suite: ao conformance run
Exit codes: 0 no rule is broken, 1 one is, 2 usage error, 3 nothing could be tested, 130 interrupted."""


@click.command("smoke", epilog=EXAMPLES)
@click.argument("cmd", nargs=-1, required=False)
@base_option
@variables_option
@jobs_option(6)
@click.pass_context
def command(context: click.Context, cmd: Sequence[str], base: Path | None, variables: Sequence[str], jobs: int) -> None:
    """Test the most frequently broken rules, in about five seconds.

    No vector is waited for longer than a few seconds; `run` is more patient.
    """
    if not cmd:
        raise click.UsageError("Missing CMD: write it after --, as in: ao conformance smoke -- ./ao-mine-exec")
    patient = {vector.id: vector for vector in load_process_vectors() if vector.id in LOOKED_AT}
    plan = Plan(
        command=absolute(cmd),
        level="core",
        vectors=[hurried(vector) for vector in patient.values()],
        base=read_base(base),
        environment=read_variables(variables),
        jobs=jobs,
        patience_seconds=PATIENCE_SECONDS,
        options=repeated(base=base, variables=variables),
    )
    with Progress(len(patient), quiet=False) as progress:
        try:
            result = run_suite(plan, progress.tell)
        except OSError as error:
            raise not_started(cmd[0], error) from error
    told = tuple(with_patience_told(vector, patient[vector.id]) for vector in result.vectors)
    finish(context, replace(result, vectors=told), [])


def hurried(vector: ProcessVector) -> ProcessVector:
    """Return a vector that is waited for a few seconds only."""
    expected, *others = (
        {**document, "within_seconds": min(_patience(vector), document["within_seconds"])}
        for document in vector.expectations
    )
    return replace(vector, source={**vector.source, "expect": expected, "other_allowed": others})


def with_patience_told(result: VectorResult, patient: ProcessVector) -> VectorResult:
    """Return a result that says, where something was waited for in vain, who waits longer."""
    patience = _patience(patient)
    if not any(map(_was_cut_short, result.findings)) or result.seconds < patience or patience >= patient.within_seconds:
        return result
    said = f"smoke waits {patience:g} s here, ao conformance run {patient.within_seconds:g} s"
    return replace(result, hint="; ".join(text for text in (result.hint, said) if text))


def _was_cut_short(finding: Finding) -> bool:
    """Tell whether more patience could have shown something else; SPEC 10 says how soon an executor exits."""
    return (
        finding.expected.startswith("an end within")
        or "killed" in finding.found
        or finding.found.startswith("no event came")
    )


def _patience(vector: ProcessVector) -> float:
    return PATIENCE_SECONDS + vector.works_for_seconds
