"""`ao top`: what the workers of this host do now."""

import os
import select
import signal
import sys
import termios
import time
import tty
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from ao_protocol.events import (
    Event,
    Heartbeat,
    InvalidEvent,
    Message,
    MessageDelta,
    RunStarted,
    ToolFinished,
    Usage,
    parse_event,
)
from ao_runner.cli.options import examples, home_option, json_option, short_name, wants_colour
from ao_runner.cli.printing import counted, leave_if_damaged, print_document, print_table, shorten
from ao_runner.cli.run_progress import Narrator
from ao_runner.cli.runs import time_since
from ao_runner.runs.lost_runs import fail_lost_runs
from ao_runner.store.ownership import Owner, living_owners
from ao_runner.store.records import Live, LiveRun
from ao_runner.store.store import Store

if TYPE_CHECKING:
    from rich.console import RenderableType

REFRESH_SECONDS: Final = 1.0
SWEEP_SECONDS: Final = 5.0
"""So often runs are looked for whose worker is gone."""
MOST_READ_LINES: Final = 20
"""So many of the last events of a run are looked at for one that says what it does."""
HEADER: Final = ("RUN", "AGENT", "PROFILE", "STATUS", "TIME", "EVENTS", "WORKER", "NOW")
WIDE_COLUMNS: Final = 100
"""A narrower terminal shows no profiles and shorter ids; the beginning of an id is enough for every command."""
SHORT_ID: Final = 12


@click.command("top", epilog=examples("ao top", "ao top --once", "ao top --json | jq .running"))
@click.option("--once", is_flag=True, help="Show it once and exit; the default if stdout is not a terminal.")
@json_option("Print it once as JSON and exit.")
@home_option
def top_command(once: bool, as_json: bool, home: Path) -> None:
    """Show running and queued runs and what each is doing. q or Ctrl-C exits; the runs continue."""
    with Store(home) as store:
        fail_lost_runs(store)
        if as_json:
            print_document(_document(store.live_runs(), living_owners(home)))
        elif once or not sys.stdout.isatty():
            live, owners = store.live_runs(), living_owners(home)
            click.echo(_summary(live, owners))
            if live.runs:
                rows = [_row(run, owners) for run in live.runs]
                print_table(HEADER, rows, expendable=("PROFILE", "WORKER", "EVENTS", "TIME", "NOW", "AGENT", "STATUS"))
            if more := live.queued - _listed_waiting(live):
                click.echo(f"… and {more} more queued: ao runs --status queued --all", err=True)
        else:
            signal.signal(signal.SIGTERM, signal.default_int_handler)
            with suppress(KeyboardInterrupt):
                _watch(store, home)
    leave_if_damaged(store.damage)


def _watch(store: Store, home: Path) -> None:
    from rich.console import Console
    from rich.live import Live as LiveView

    console = Console(highlight=False, no_color=not wants_colour())
    sweep_at = time.monotonic() + SWEEP_SECONDS
    with _keys() as keys, LiveView(console=console, screen=True, auto_refresh=False) as view:
        while True:
            live = store.live_runs()
            view.update(_screen(live, living_owners(home), console.width, console.height))
            view.refresh()
            if _is_to_quit(keys):
                return
            if time.monotonic() >= sweep_at:
                fail_lost_runs(store)
                sweep_at = time.monotonic() + SWEEP_SECONDS


@contextmanager
def _keys() -> Iterator[int | None]:
    """Have every key read at once and not shown, and give the descriptor; None where stdin is not ours to read."""
    stdin = 0
    if not os.isatty(stdin) or _is_in_background(stdin):
        yield None
        return
    before = termios.tcgetattr(stdin)
    tty.setcbreak(stdin)
    try:
        yield stdin
    finally:
        termios.tcsetattr(stdin, termios.TCSAFLUSH, before)


def _is_in_background(terminal: int) -> bool:
    try:
        return os.tcgetpgrp(terminal) != os.getpgrp()
    except OSError:
        return False  # it controls another session, or none, and stops nobody


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
    from rich.table import Table
    from rich.text import Text

    is_wide = width >= WIDE_COLUMNS
    table = Table(box=None, padding=(0, 2, 0, 0), expand=True, header_style="bold", pad_edge=False)
    for name in HEADER:
        if name == "PROFILE" and not is_wide:
            continue
        most = {"AGENT": 24 if is_wide else 12, "PROFILE": 20}.get(name)
        table.add_column(
            name, no_wrap=True, overflow="ellipsis", ratio=1 if name == "NOW" else None, max_width=most,
            justify="right" if name in {"TIME", "EVENTS"} else "left",
        )  # fmt: skip
    room = max(1, height - 4)
    shown = live.runs if len(live.runs) <= room else live.runs[: room - 1]
    for run in shown:
        cells = _row(run, owners)
        if not is_wide:
            cells = [cells[0][:SHORT_ID], cells[1], *cells[3:]]
        style = "yellow" if run.is_stopping else "dim" if run.status == "queued" else ""
        table.add_row(*(Text(cell) for cell in cells), style=style)
    hidden = live.running + live.queued - len(shown)
    foot = f"… and {hidden} more: ao runs --all" if hidden else "q: exit"
    return Group(Text(_summary(live, owners), style="bold"), Text(), table, Text(foot, style="dim"))


def _summary(live: Live, owners: dict[str, Owner]) -> str:
    workers = sum(bool(owner.serves) for owner in owners.values())
    remark = "; queued runs need one, start it: ao worker" if live.queued and not workers else ""
    return (
        f"{live.running} running · {live.queued} queued · {live.ended_lately} ended in the last minute"
        f" · {counted(workers, 'worker')}{remark}"
    )


def _row(run: LiveRun, owners: dict[str, Owner]) -> list[str]:
    return [
        run.run_id,
        shorten(run.agent_name, 24),
        short_name(run.profile),
        _status(run, owners),
        time_since(run.since),
        str(run.events),
        _worker(run, owners),
        shorten(doing(run.last_lines), 60) if run.status == "running" else "",
    ]


def _status(run: LiveRun, owners: dict[str, Owner]) -> str:
    if run.status == "running" and run.owner not in owners:
        return "worker is gone"
    return "stopping" if run.is_stopping else run.status


def _worker(run: LiveRun, owners: dict[str, Owner]) -> str:
    owner = owners.get(run.owner)
    return "" if owner is None or not owner.pid else str(owner.pid)


def doing(lines: tuple[str, ...]) -> str:
    """Return what a run does, in a few words, by the last of its events that says so."""
    for line in reversed(lines[-MOST_READ_LINES:]):
        try:
            event = parse_event(line.encode())
        except InvalidEvent:
            continue  # of another version, or cut
        if told := _told(event):
            return told
    return "starting" if not lines else "working"


def _told(event: Event) -> str:
    match event.body:
        case MessageDelta():
            return "writing"
        case Message(role="assistant", content=content):
            return f"│ {''.join(block.text for block in content)}"
        case Heartbeat(phase="retry_wait"):
            return "waiting to try again"
        case RunStarted() | ToolFinished(status="completed"):
            return "thinking"
        case Heartbeat() | Usage():
            return ""
        case _:
            lines = Narrator().tell(event)
            return f"{lines[-1].mark} {lines[-1].text}" if lines else ""


def _listed_waiting(live: Live) -> int:
    return sum(run.status == "queued" for run in live.runs)


def _document(live: Live, owners: dict[str, Owner]) -> dict[str, object]:
    return {
        "running": live.running,
        "queued": live.queued,
        "ended_in_the_last_minute": live.ended_lately,
        "workers": [
            {"worker": name, "pid": owner.pid, "serves": owner.serves} for name, owner in owners.items() if owner.serves
        ],
        "runs": [
            {
                "run_id": run.run_id,
                "session_id": run.session_id,
                "agent_name": run.agent_name,
                "profile": run.profile,
                "status": run.status,
                "attempt": run.attempt,
                "since": run.since,
                "stopping": run.is_stopping,
                "events": run.events,
                "now": shorten(doing(run.last_lines)) if run.status == "running" else "",
                "worker": run.owner or None,
                "pid": owner.pid or None if (owner := owners.get(run.owner)) else None,
            }
            for run in live.runs
        ],
    }
