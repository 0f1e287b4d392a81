"""`ao run --batch`: perform the runs of a batch here, several at a time, without a worker."""

import asyncio
import os
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn

import click

from ao_protocol.events import Terminal
from ao_protocol.wire import JsonObject
from ao_runner.cli.batch_file import BatchFile
from ao_runner.cli.batch_results import print_rows, show_end, told
from ao_runner.cli.gating import conclude
from ao_runner.cli.new_run import STDIN
from ao_runner.cli.options import RunArguments
from ao_runner.cli.printing import echo, print_document, show_counter
from ao_runner.cli.run_command import simulator_of, store_of_this_host
from ao_runner.discovery import locate_executor
from ao_runner.errors import EXIT_INTERRUPTED, RunnerError
from ao_runner.processes.containment import probe
from ao_runner.run_events import Relayed
from ao_runner.runs.attempt import Launcher
from ao_runner.runs.batches import result_row
from ao_runner.runs.journal import NeverFull, StoredJournal, paused_profiles
from ao_runner.runs.outcome import error_type_of, status_of
from ao_runner.runs.run import launching, perform_run, request_here
from ao_runner.runs.run_request import Simulation, StopRequests, on_signals
from ao_runner.runs.submission import AcceptedRun
from ao_runner.store.ownership import own_runs
from ao_runner.store.records import Run, RunStatus, timestamp


def run_batch(given: RunArguments) -> NoReturn:
    """Perform the runs of a file, and exit with the highest exit code."""
    if given["prompt"] == STDIN or given["style"] == "events":
        raise click.UsageError("--batch has neither --events nor -p -; omit them.")
    if given["verdict"] is not None:
        raise click.UsageError("--batch has no --verdict, which is a file about one run; omit it.")
    if given["executor"] is not None and given["profile"] is not None:
        raise click.UsageError("Use either --profile or --executor: a profile names its executor.")
    executor = None if given["executor"] is None else locate_executor(given["executor"])
    script, home = given["model_script"], given["home"]
    with store_of_this_host(home) as store, own_runs(home) as owner:
        file = BatchFile(given, store, executor=executor)
        accepted = file.accept_all()
        with nullcontext() if script is None else simulator_of(script, home) as simulator:
            batch = _Batch(file, accepted, owner, None if simulator is None else simulator.simulation)
            asyncio.run(batch.perform(given["concurrency"]))
    batch.conclude()


@dataclass(eq=False)
class _Batch(NeverFull):
    """The runs of a batch while they are performed. It hears their notes, and tells each once."""

    file: BatchFile
    accepted: list[AcceptedRun]
    owner: str
    simulation: Simulation | None
    rows: list[JsonObject] = field(default_factory=list)
    counts: Counter[RunStatus] = field(default_factory=Counter)
    code: int = 0
    begun: int = 0
    _stops: list[StopRequests] = field(default_factory=list)
    _notes: set[str] = field(default_factory=set)
    _is_stopping: bool = False

    def __post_init__(self) -> None:
        self._is_table = sys.stdout.isatty() and self.file.given["style"] is None
        self.counts["queued"] = len(self.accepted)

    async def perform(self, concurrency: int) -> None:
        """Perform all runs, at most so many at a time; after a signal, only those that have begun."""
        waiting, home = enumerate(self.accepted, 1), self.file.given["home"]
        with on_signals(self._stop):
            async with launching(home, self.owner, self.on_note, probe(os.environ)) as launcher:
                await asyncio.gather(*(self._perform_some(waiting, launcher) for _ in range(concurrency)))

    async def _perform_some(self, waiting: Iterator[tuple[int, AcceptedRun]], launcher: Launcher) -> None:
        while not self._is_stopping and (found := next(waiting, None)) is not None:
            place, accepted = found
            self.begun, stops = place, StopRequests()
            self._stops.append(stops)
            self.counts.update({"running": 1, "queued": -1})
            try:
                self._show(place, *await self._perform(accepted, stops, launcher))
            except RunnerError as error:
                echo(f"✗ request {place}: {error}", fg="red", err=True)
                self.code = max(self.code, error.exit_code)
                self.counts.update({"running": -1, "failed": 1})
            finally:
                self._stops.remove(stops)

    async def _perform(self, accepted: AcceptedRun, stops: StopRequests, launcher: Launcher) -> tuple[Run, Terminal]:
        given, store = self.file.given, self.file.store
        run = replace(accepted.run, status="running", started_at=timestamp())
        profile = self.file.profile(run.profile or "")
        options: dict[str, Any] = {"simulation": self.simulation, "verify_results": given["verify_results"]}
        request = request_here(accepted._replace(run=run), profile, store, given["home"], **options)
        new_session = accepted.session if accepted.is_new_session else None
        journal = StoredJournal(store, run, self, self.owner, new_session, paused_profiles(run, profile))
        terminal = await perform_run(request, journal, stops, launcher)
        self.code = max(self.code, conclude(given, terminal, run, store))
        return run, terminal

    def _show(self, place: int, run: Run, terminal: Terminal) -> None:
        status, cost = status_of(terminal), terminal.usage.cost_usd if terminal.usage else None
        ended = replace(run, status=status, ended_at=timestamp(), error_type=error_type_of(terminal))
        self.rows.append(result_row(place, ended, terminal, cost))
        self.counts.update({status: 1, "running": -1})
        try:
            if self._is_table:
                show_counter(told(self.counts))
            else:
                print_document(self.rows[-1])
        except OSError:  # nobody reads; what has ended is stored
            self._stop()

    def _stop(self) -> None:
        self._is_stopping = True
        for stops in self._stops:
            stops.request()

    def on_event(self, relayed: Relayed) -> None:
        """Ignore events, which are stored."""

    def on_note(self, note: str) -> None:
        """Print a note to stderr, once."""
        if note not in self._notes:
            self._notes.add(note)
            echo(f"ao: {note}", err=True)

    def conclude(self) -> NoReturn:
        """Show the end, also what was not begun, and exit."""
        if self._is_table:
            show_counter()
            print_rows(sorted(self.rows, key=lambda row: int(str(row["place"]))))
        del self.counts["queued"]
        show_end(str(self.accepted[0].run.batch_id), self.counts)
        if self.begun < len(self.accepted):
            echo(f"  not begun: the requests from {self.begun + 1} to {len(self.accepted)}", err=True)
            self.code = max(self.code, EXIT_INTERRUPTED)
        sys.exit(self.code)
