"""The story of `ao run` and `ao resume` once they know what to run: simulator, listener, run, result, exit code."""

import asyncio
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import click

from ao_protocol.events import Terminal
from ao_runner.cli.contract import Demand
from ao_runner.cli.listeners import follow_run
from ao_runner.cli.options import RunOptions, Style
from ao_runner.cli.show_result import show_terminal
from ao_runner.model_script import RunningSimulator, play_model_script
from ao_runner.processes.containment import Containment, probe
from ao_runner.profiles import Profile
from ao_runner.runs.journal import StoredJournal
from ao_runner.runs.outcome import exit_code_of
from ao_runner.runs.run import perform_single_run
from ao_runner.runs.run_request import RunRequest, request_under
from ao_runner.runs.stopping import StopRequests, on_signals
from ao_runner.store.ownership import own_runs
from ao_runner.store.records import Run, Session
from ao_runner.store.store import Store


@dataclass(frozen=True, slots=True)
class Wish:
    """What the person asked for, apart from the run itself."""

    home: Path
    style: Style
    timeout_seconds: float | None
    model_script: Path | None
    demand: Demand


def wish_from(options: RunOptions, demand: Demand) -> Wish:
    """Return what the options ask for."""
    return Wish(options["home"], options["style"] or "people", options["timeout"], options["model_script"], demand)


def perform_wish(wish: Wish, store: Store, session: Session, run: Run, profile: Profile) -> None:
    """Perform a run under a profile, show it as wished, and leave with the exit code of its terminal event."""
    began_at = time.monotonic()
    containment = probe(os.environ)
    stops = StopRequests()
    with (
        own_runs(wish.home) as owner,
        _simulator(wish) as simulator,
        follow_run(wish.style, wish.demand.attempts, stops.request) as listener,
    ):
        order = replace(
            request_under(profile, session, run, timeout_seconds=wish.timeout_seconds, environ=os.environ),
            simulation=simulator.simulation if simulator else None,
            first_parameters=store.first_run(session.session_id).parameters if run.mode == "resume" else None,
            option_defaults=wish.demand.defaults,
            verify_results=wish.demand.verify_results,
        )
        journal = StoredJournal(store, run, listener, owner, session if run.mode == "start" else None)
        terminal = asyncio.run(_perform(order, journal, stops, wish.home, containment))
    if wish.style == "people":
        seconds = time.monotonic() - began_at
        show_terminal(terminal, store.find_session(session.session_id), seconds, store.rejected_in(run.run_id))
    _leave(terminal, simulator)


async def _perform(
    order: RunRequest, journal: StoredJournal, stops: StopRequests, home: Path, containment: Containment
) -> Terminal:
    with on_signals(stops.request):
        return await perform_single_run(order, journal, stops, home, containment)


@contextmanager
def _simulator(wish: Wish) -> Iterator[RunningSimulator | None]:
    if wish.model_script is None:
        yield None
    else:
        with play_model_script(wish.model_script, wish.home, os.environ) as simulator:
            yield simulator


def _leave(terminal: Terminal, simulator: RunningSimulator | None) -> None:
    if simulator is not None and simulator.report:
        click.secho("! the model received requests that its script does not expect:", fg="yellow", err=True)
        for line in simulator.report.splitlines():
            click.echo(f"    {line}", err=True)
    sys.exit(int(exit_code_of(terminal)))
