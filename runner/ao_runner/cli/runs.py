"""`ao runs`, `ao cancel` and `ao top`: what waits, what runs, what has ended, and how it is stopped."""

import json
import os
import select
import signal
import sys
import termios
import time
import tty
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict
from datetime import datetime
from typing import TYPE_CHECKING, Final, get_args

import click

from ao_protocol.events import InvalidEvent
from ao_runner.cli.options import (
    all_option,
    complete_batch,
    complete_open_run,
    examples,
    json_option,
    label_option,
    short_name,
    store_options,
    wants_colour,
)
from ao_runner.cli.printing import (
    MOST_SHOWN,
    console,
    counted,
    echo,
    leave_if_damaged,
    print_document,
    print_table,
    shorten,
    show_newest,
    table_lines,
)
from ao_runner.errors import RunnerError
from ao_runner.runs.batches import find_batch
from ao_runner.runs.lost_runs import cancel_run, fail_lost_runs, opened_and_swept
from ao_runner.runs.narration import entry_of, event_for_people
from ao_runner.runs.waiting import WaitReason, reasons_to_wait, waiting_in_vain
from ao_runner.store.brief_fields import begin_of, brief
from ao_runner.store.opening import StorePlace
from ao_runner.store.ownership import Owner
from ao_runner.store.records import LAST, OPEN_STATUSES, Run, RunState, RunStatus, seconds_since
from ao_runner.store.run_figures import Live, LiveRun
from ao_runner.store.run_filter import RunFilter
from ao_runner.store.store import Store
from ao_runner.store.store_errors import BATCH, BatchUnknown, RowDamaged, SessionUnknown

if TYPE_CHECKING:
    from rich.console import RenderableType


@click.command(
    "runs",
    epilog=examples(
        "ao runs",
        "ao runs --status queued --status running",
        "ao runs --label team=docs",
        "ao runs --status failed --json | jq -r '.[] | [.run_id, .error_type] | @tsv'",
        "ao runs --status queued --json | jq -r '.[].run_id' | xargs ao cancel",
    ),
)
@click.option(
    "--status",
    "statuses",
    type=click.Choice(get_args(RunStatus)),
    multiple=True,
    help="List only runs with this status. Repeatable.",
)
@label_option("List only runs with this label. Repeatable.")
@click.option("--batch", metavar="BATCH", shell_complete=complete_batch, help="List only the runs of this batch.")
@all_option
@json_option("Print all runs as JSON, with all fields.")
@store_options
def runs_command(
    statuses: tuple[RunStatus, ...],
    labels: dict[str, str],
    batch: str | None,
    show_all: bool,
    as_json: bool,
    place: StorePlace,
) -> None:
    """List the runs of this host, newest first: queued, running and ended.

    With --status, failed runs that another run repeats are left out.
    """
    with opened_and_swept(place) as store:
        batch_id = None if batch is None else find_batch(store, batch)
        states = [one for one in store.runs.states(*statuses)[::-1] if labels.items() <= one.run.labels.items()]
        repeated = store.runs.repeated() if statuses else set()
        fitting = [one for one in states if batch_id in {None, one.run.batch_id}]
        states = [one for one in fitting if one.run.status != "failed" or one.run.run_id not in repeated]
        waiting = reasons_to_wait(store, store.runs.states(*OPEN_STATUSES))
        if as_json:
            print_document([_document(state, waiting) for state in states])
        elif states or not store.damage:
            owners, now = store.workers.living(), store.now()
            shown = states if show_all else states[:MOST_SHOWN]
            are = "no run fits" if statuses or labels or batch else "no runs yet"
            print_table(
                ["RUN", "SESSION", "AGENT", "PROFILE", "STATUS", "EVENTS", "SINCE", "PROMPT", "LABELS"],
                [_row(state, _status(state, owners, waiting), now) for state in shown],
                whole=("SESSION",),
                expendable=("SESSION", "PROFILE", "EVENTS", "LABELS", "PROMPT", "SINCE", "AGENT", "STATUS"),
                if_empty=f'{are}; add one to the queue: ao submit BLUEPRINT -p "…"',
            )
            show_newest(len(states), len(shown), "ao runs")
            if left_out := len(fitting) - len(states):
                echo(f"… and {left_out} that were run again: ao runs", err=True)
            if idle := waiting_in_vain(owners, {one.run.profile or "" for one in states if one.run.status == "queued"}):
                echo(idle, err=True)
    leave_if_damaged(store.damage)


def _document(state: RunState, waiting: Mapping[str, WaitReason]) -> dict[str, object]:
    """Return a run as JSON, with the name of its agent and, if it is queued and cannot begin, the reason."""
    others = asdict(state)
    others.pop("number")
    run = others.pop("run")
    run.pop("model_script")
    reason = waiting.get(state.run.run_id)
    added = {"agent_name": others.pop("agent_name"), "waits": None if reason is None else reason.text}
    return brief({"run_id": run["run_id"], "session_id": run["session_id"], **run, **added, **others})


def _status(state: RunState, owners: Mapping[str, Owner], waiting: Mapping[str, WaitReason]) -> str:
    """Return the status of a run in a few words; of a queued one with the reason why it waits."""
    run = state.run
    if run.run_id in waiting:
        return f"queued: {waiting[run.run_id].text}"
    if run.status == "running" and state.owner not in owners:
        return "worker is gone"  # until another process delivers what it has left
    if run.status == "running" and state.stop_wanted:
        return "stopping"
    return run.status if run.error_type in {None, run.status} else f"{run.status}: {run.error_type}"


UNITS: Final = ((86400, "d"), (3600, "h"), (60, "min"))


def time_since(timestamp: str, now: datetime) -> str:
    """Return how long ago that was, in its largest unit; `?` for what is no time."""
    try:
        seconds = int(seconds_since(timestamp, now))
    except (TypeError, ValueError, OverflowError):
        return "?"
    size, unit = next(((size, unit) for size, unit in UNITS if seconds >= size), (1, "s"))
    return f"{seconds // size} {unit}"


def prompt_of(run: Run) -> str:
    """Return the beginning of a run's prompt, or of its parameters."""
    text = run.parameters.get("prompt") or begin_of(run.parameters)
    return shorten(text if isinstance(text, str) else json.dumps(text, ensure_ascii=False), 40)


def _row(state: RunState, status: str, now: datetime) -> list[str]:
    run = state.run
    return [
        run.run_id,
        run.session_id,
        shorten(state.agent_name, 24),
        short_name(state.run.profile or "-"),
        status,
        str(state.last_seq),
        time_since(run.ended_at or run.started_at, now),
        prompt_of(run),
        shorten(", ".join(f"{name}={text}" for name, text in run.labels.items()), 40),
    ]


class NothingToCancel(RunnerError):
    """A run cannot be cancelled from here."""


@click.command(
    "cancel",
    epilog=examples(
        "ao cancel run_4c5ab0",
        "ao cancel last",
        "ao runs --status queued --json | jq -r '.[].run_id' | xargs ao cancel",
    )
    + "\n\n\b\nExit codes: 0 all were cancelled or asked to stop, 2 some could not be cancelled.",
)
@click.argument("runs", metavar="RUN...", nargs=-1, required=True, shell_complete=complete_open_run)
@store_options
def cancel_command(runs: tuple[str, ...], place: StorePlace) -> None:
    """Cancel each RUN: an id, the beginning of one, or `last`: the newest run.

    Of a session, cancel its open run, and of a batch (bat_…) all of them. A queued run ends at once. A running one is
    asked to stop; cancelled again, it is killed.
    """
    refused = []
    with opened_and_swept(place) as store:
        for run in runs:
            try:
                if run.startswith(BATCH):
                    _cancel_batch(store, find_batch(store, run))
                else:
                    echo(_cancel(store, run), err=True)
            except (NothingToCancel, SessionUnknown, BatchUnknown, RowDamaged) as error:
                refused.append(str(error))
    if refused:
        raise NothingToCancel("\n".join(refused))


def _cancel_batch(store: Store, batch_id: str) -> None:
    """Cancel the open runs of a batch: the queued ones first, so that no worker takes one in between."""
    wanted = RunFilter(statuses=OPEN_STATUSES, equal={"batch_id": batch_id}, limit=2**31)
    runs = [state.run for state in store.runs.search(wanted) if state.queued_at is not None]
    if not runs:
        raise NothingToCancel(f"no run of {batch_id} waits, or is a worker's; `ao results {batch_id}` shows them all")
    with store.transaction():
        before = [cancel_run(store, run) for run in sorted(runs, key=lambda run: run.status)]
    store.notify()
    asked = f"{before.count('queued')} cancelled; {before.count('running')} were asked to stop"
    echo(f"{batch_id}: {asked}. Follow: ao wait {batch_id}", err=True)


def _cancel(store: Store, wanted: str) -> str:
    """Cancel one run and return what came of it, in a sentence.

    Raises:
        NothingToCancel: it is over, or somebody else has to do it.
        SessionUnknown: it is not there.
    """
    state = _find(store, wanted)
    if state.queued_at is None and state.run.status == "running":
        raise NothingToCancel(f"{state.run.run_id} was started by `ao run` or `ao resume`; press Ctrl-C there")
    with store.transaction():
        status = cancel_run(store, state.run)
    if status == "queued":
        return f"{state.run.run_id} cancelled; no worker had started it"
    if status == "running":
        store.notify()
        again = "will be killed" if state.stop_wanted else "was asked to stop; cancel it again to kill it"
        return f"{state.run.run_id} {again}. Show its result: ao result {state.run.session_id}"
    raise NothingToCancel(
        f"{state.run.run_id} has already ended: {status}; `ao result {state.run.session_id}` shows it"
    )


def _find(store: Store, wanted: str) -> RunState:
    session_id, run_id = store.sessions.resolve(wanted)
    if wanted == LAST:
        run_id = store.runs.find_id(session_id, LAST)
    if run_id is None:
        run_id = next((run.run_id for run in store.runs.of_sessions(session_id) if run.status in OPEN_STATUSES), None)
    if run_id is None:
        raise NothingToCancel(f"session {session_id} has no run that has not ended; `ao result {session_id}` shows it")
    (state,) = store.runs.find(run_id)
    return state


REFRESH_SECONDS: Final = 1.0
SWEEP_SECONDS: Final = 5.0
"""So often runs are looked for whose worker is gone."""
MOST_READ_LINES: Final = 20
"""So many of the last events of a run are looked at for one that says what it does."""
HEADER: Final = ("RUN", "AGENT", "PROFILE", "STATUS", "TIME", "EVENTS", "WORKER", "NOW")
EXPENDABLE: Final = ("PROFILE", "WORKER", "EVENTS", "TIME", "NOW", "AGENT", "STATUS")


@click.command("top", epilog=examples("ao top", "ao top --once", "ao top --json | jq .running"))
@click.option("--once", is_flag=True, help="Show it once and exit; the default if stdout is not a terminal.")
@json_option("Print it once as JSON and exit.")
@store_options
def top_command(once: bool, as_json: bool, place: StorePlace) -> None:
    """Show running and queued runs and what each is doing. q or Ctrl-C exits; the runs continue."""
    with opened_and_swept(place) as store:
        if as_json:
            print_document(_live_document(store.figures.live(), store.workers.living()))
        elif once or not sys.stdout.isatty():
            live, owners = store.figures.live(), store.workers.living()
            echo(_summary(live, owners))
            print_table(HEADER, [_live_row(run, owners, live.now) for run in live.runs], expendable=EXPENDABLE)
            if more := live.queued - sum(run.status == "queued" for run in live.runs):
                echo(f"… and {more} more queued: ao runs --status queued --all", err=True)
        else:
            signal.signal(signal.SIGTERM, signal.default_int_handler)
            with suppress(KeyboardInterrupt):
                _watch(store)
    leave_if_damaged(store.damage)


def _watch(store: Store) -> None:
    from rich.live import Live as LiveView

    screen = console(no_color=not wants_colour())
    sweep_at = time.monotonic() + SWEEP_SECONDS
    with _keys() as keys, LiveView(console=screen, screen=True, auto_refresh=False) as view:
        while True:
            live = store.figures.live()
            view.update(_screen(live, store.workers.living(), screen.width, screen.height))
            view.refresh()
            if _is_to_quit(keys):
                return
            if time.monotonic() >= sweep_at:
                fail_lost_runs(store)
                sweep_at = time.monotonic() + SWEEP_SECONDS


@contextmanager
def _keys() -> Iterator[int | None]:
    """Have every key read at once and not shown, and give the descriptor; None where stdin is not ours to read."""
    stdin, is_ours = 0, os.isatty(0)
    with suppress(OSError):  # it controls another session, or none, and stops nobody
        is_ours = is_ours and os.tcgetpgrp(stdin) == os.getpgrp()
    if not is_ours:
        yield None
        return
    before = termios.tcgetattr(stdin)
    tty.setcbreak(stdin)
    try:
        yield stdin
    finally:
        termios.tcsetattr(stdin, termios.TCSAFLUSH, before)


def _is_to_quit(keys: int | None) -> bool:
    """Wait until the next look is due; true as soon as `q` is pressed or the terminal is gone."""
    until = time.monotonic() + REFRESH_SECONDS
    while (left := until - time.monotonic()) > 0:
        if select.select([] if keys is None else [keys], [], [], left)[0] and keys is not None:
            pressed = os.read(keys, 1024)
            if not pressed or b"q" in pressed.lower():
                return True
    return False


def _screen(live: Live, owners: dict[str, Owner], width: int, height: int) -> "RenderableType":
    from rich.console import Group
    from rich.text import Text

    room = max(1, height - 4)
    shown = live.runs if len(live.runs) <= room else live.runs[: room - 1]
    rows = [_live_row(run, owners, live.now) for run in shown]
    styles = ["bold", *("yellow" if run.is_stopping else "dim" if run.status == "queued" else "" for run in shown)]
    lines = zip(table_lines(HEADER, rows, width, expendable=EXPENDABLE), styles, strict=True)
    table = [Text(line, style=style, no_wrap=True, overflow="crop") for line, style in lines]
    hidden = live.running + live.queued - len(shown)
    foot = f"… and {hidden} more: ao runs --all" if hidden else "q: exit"
    return Group(Text(_summary(live, owners), style="bold"), Text(), *table, Text(foot, style="dim"))


def _summary(live: Live, owners: dict[str, Owner]) -> str:
    workers = sum(bool(owner.serves) for owner in owners.values())
    remark = "; queued runs need one, start it: ao worker" if live.queued and not workers else ""
    return (
        f"{live.running} running · {live.queued} queued · {live.ended_lately} ended in the last minute"
        f" · {counted(workers, 'worker')}{remark}"
    )


def _live_row(run: LiveRun, owners: dict[str, Owner], now: datetime) -> list[str]:
    owner = owners.get(run.owner)
    status = "stopping" if run.is_stopping else run.status
    return [
        run.run_id,
        shorten(run.agent_name, 24),
        short_name(run.profile),
        "worker is gone" if run.status == "running" and owner is None else status,
        time_since(run.since, now),
        str(run.events),
        "" if owner is None or not owner.pid else " ".join(filter(None, [owner.host, str(owner.pid)])),
        shorten(doing(run.last_lines), 60) if run.status == "running" else "",
    ]


def doing(lines: tuple[str, ...]) -> str:
    """Return what a run does, in a few words, by the last of its events that says so."""
    otherwise = "starting" if not lines else "working"
    for line in reversed(lines[-MOST_READ_LINES:]):
        try:
            entry = entry_of(event_for_people(line.encode()).body)
        except InvalidEvent:
            continue  # of another version, or cut
        is_line = entry.weight == "line" and entry.kind != "start"
        if told := f"{entry.mark} {entry.sentence}" if is_line else entry.doing:
            return told
        if (entry.title, entry.text) == ("Heartbeat", "model"):  # what is before it may be cut off
            otherwise = "thinking"
    return otherwise


def _live_document(live: Live, owners: dict[str, Owner]) -> dict[str, object]:
    return {
        "running": live.running,
        "queued": live.queued,
        "ended_in_the_last_minute": live.ended_lately,
        "workers": [{"worker": name, **owner._asdict()} for name, owner in owners.items() if owner.serves],
        "runs": [_live_run(run, owners.get(run.owner)) for run in live.runs],
    }


def _live_run(run: LiveRun, owner: Owner | None) -> dict[str, object]:
    known = asdict(run)
    worker, is_stopping = known.pop("owner"), known.pop("is_stopping")
    now = shorten(doing(known.pop("last_lines"))) if run.status == "running" else ""
    pid = owner.pid if owner else 0
    return {**known, "stopping": is_stopping, "now": now, "worker": worker or None, "pid": pid or None}
