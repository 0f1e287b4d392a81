"""The only run of a process: what a killed runner left is removed first, then the run is performed."""

from pathlib import Path

from ao_protocol.events import Terminal
from ao_runner.processes.cleanup_notes import own_belongings
from ao_runner.processes.containment import Containment, lifelines
from ao_runner.processes.launcher import ColdLauncher
from ao_runner.processes.sweeping import sweep_left_behind
from ao_runner.runs.journal import StoredJournal
from ao_runner.runs.run import perform_run
from ao_runner.runs.run_order import RunOrder
from ao_runner.runs.stop_requests import StopRequests


async def perform_single_run(
    order: RunOrder, journal: StoredJournal, stops: StopRequests, home: Path, containment: Containment
) -> Terminal:
    """Perform a run and return its terminal event, which is stored.

    Raises:
        SessionBusy: the session has a run that is not over.
    """
    if swept := sweep_left_behind(home, journal.note):
        journal.note(f"cleaned up after a killed runner: {swept}")
    with own_belongings(home, journal.owner, journal.note) as belongings, lifelines(containment) as lines:
        return await perform_run(order, journal, stops, ColdLauncher(lines, belongings))
