"""`ao wait` and `ao results`: the runs of a batch until they have ended, and what they have come to."""

import csv
import json
import sys
import time
from collections.abc import Mapping, Sequence
from io import StringIO
from typing import Final, NoReturn

import click
from pydantic import JsonValue

from ao_protocol.wire import JsonObject
from ao_runner.cli.options import batch_argument, examples, store_options
from ao_runner.cli.printing import (
    counted,
    echo,
    leave_if_damaged,
    print_document,
    print_exactly,
    print_table,
    shorten,
    show_counter,
)
from ao_runner.cli.stored_events import SWEEP_SECONDS
from ao_runner.errors import EXIT_INTERRUPTED
from ao_runner.runs.batches import find_batch, results_of, worst_exit_code
from ao_runner.runs.lost_runs import fail_lost_runs, opened_and_swept
from ao_runner.runs.waiting import waiting_in_vain
from ao_runner.store.opening import StorePlace
from ao_runner.store.records import RunStatus
from ao_runner.store.run_filter import RunFilter
from ao_runner.store.store import Store

POLL_SECONDS: Final = 0.25
ORDER: Final[tuple[RunStatus, ...]] = ("completed", "failed", "cancelled", "running", "queued")
EXIT_CODES: Final = "\n\n\b\nThe exit code is the highest of its runs: 0 results only; else as of `ao run`."


@click.command(
    "wait",
    epilog=examples("ao wait bat_4c5ab0", "ao wait last && ao results last --format csv > answers.csv") + EXIT_CODES,
)
@batch_argument
@store_options
def wait_command(batch: str, place: StorePlace) -> None:
    """Wait until all runs of BATCH have ended: its id, the beginning of one, or `last`.

    A terminal shows the progress. After Ctrl-C the runs continue, and the command can be repeated.
    """
    with opened_and_swept(place) as store:
        wait_for_batch(store, find_batch(store, batch))


def wait_for_batch(store: Store, batch_id: str) -> NoReturn:
    """Wait for the end of a batch, say how it has ended, and exit with the highest exit code of its runs."""
    try:
        counts = _followed(store, batch_id)
    except KeyboardInterrupt:
        echo(f"\nthe runs continue; wait again: ao wait {batch_id}, or cancel them: ao cancel {batch_id}", err=True)
        sys.exit(EXIT_INTERRUPTED)
    show_end(batch_id, counts)
    sys.exit(worst_exit_code(store, batch_id))


def show_end(batch_id: str, counts: Mapping[RunStatus, int]) -> None:
    """Say on stderr how the runs of a batch have ended, and what to do next."""
    echo(f"{batch_id}: {told(counts)}", fg="red" if counts.get("failed") else "green", err=True)
    echo(f"  results: ao results {batch_id}", err=True)
    if counts.get("failed"):
        echo(f"  run the failed ones again: ao submit --rerun-failed {batch_id}", err=True)


def _followed(store: Store, batch_id: str) -> dict[RunStatus, int]:
    queued = store.runs.search(RunFilter(statuses=("queued",), equal={"batch_id": batch_id}))
    if idle := waiting_in_vain(store.workers.living(), {one.run.profile or "" for one in queued}):
        echo(f"ao: {idle}", err=True)
    is_shown, sweep_at = sys.stderr.isatty(), 0.0
    while True:
        counts = store.runs.count_batch(batch_id)
        if is_shown:
            show_counter(told(counts))
        if not counts.keys() & {"queued", "running"}:
            if is_shown:
                show_counter()
            return counts
        if time.monotonic() >= sweep_at:
            fail_lost_runs(store)
            sweep_at = time.monotonic() + SWEEP_SECONDS
        time.sleep(POLL_SECONDS)


def told(counts: Mapping[RunStatus, int]) -> str:
    """Return how many runs have ended, and the number of each status."""
    ended = sum(count for status, count in counts.items() if status not in {"queued", "running"})
    parts = [f"{counts[status]} {status}" for status in ORDER if counts.get(status)]
    return " · ".join([f"{ended} of {counted(sum(counts.values()), 'run')} ended", *parts])


@click.command(
    "results",
    epilog=examples(
        "ao results last",
        "ao results bat_4c5ab0 --format csv > answers.csv",
        "ao results bat_4c5ab0 --format json | jq -r 'select(.status == \"failed\") | .run_id'",
    ),
)
@batch_argument
@click.option(
    "--format",
    "style",
    type=click.Choice(("table", "json", "csv")),
    default="table",
    show_default=True,
    help="A table for people; JSON Lines; or CSV, with a column for each parameter and each field of the answers.",
)
@store_options
def results_command(batch: str, style: str, place: StorePlace) -> None:
    """Print what each run of BATCH has come to, in the order of its file: its id, the beginning of one, or `last`.

    A run that was run again is left out; the new one has its place.
    """
    with opened_and_swept(place) as store:
        batch_id = find_batch(store, batch)
        rows = results_of(store, batch_id)
        if style == "json":
            for row in rows:
                print_document(row)
        elif style == "csv":
            print_exactly(_in_csv([*rows]))
        else:
            print_rows([*rows])
        counts = store.runs.count_batch(batch_id)
    if style == "table" or counts.keys() & {"queued", "running"}:
        echo(f"{batch_id}: {told(counts)}", err=True)
    leave_if_damaged(store.damage)


HEADER: Final = ("#", "RUN", "STATUS", "TIME", "COST", "PARAMETERS", "ANSWER OR ERROR")
PLAIN: Final = ("place", "run_id", "session_id", "status", "error_type", "error_message", "cost_usd", "seconds")
"""The columns of CSV before the parameters and the answer."""


def print_rows(rows: Sequence[JsonObject]) -> None:
    """Print rows of results as a table."""
    print_table(HEADER, list(map(_cells, rows)), whole=("RUN",), expendable=("COST", "TIME", "PARAMETERS"))


def _cells(row: JsonObject) -> list[str]:
    seconds, cost, answer = row["seconds"], row["cost_usd"], row["answer"]
    status = row["error_type"] or row["status"]
    return [
        str(row["place"]),
        str(row["run_id"]),
        str(row["status"]) if status == row["status"] else f"{row['status']}: {status}",
        "" if seconds is None else f"{seconds:.1f} s",
        "" if cost is None else f"${cost:.4f}",
        shorten(_text(row["parameters"]), 40),
        shorten(str(row["error_message"]) if answer is None and row["error_message"] else _text(answer), 80),
    ]


def _in_csv(rows: list[JsonObject]) -> str:
    """Return rows as CSV: `parameters.NAME` for each parameter, and `answer.NAME` for each field of the answers."""
    flat = [
        {**{name: row[name] for name in PLAIN}, **_spread(row, "parameters"), **_spread(row, "answer")} for row in rows
    ]
    header = dict.fromkeys(PLAIN)
    for name in ("parameters", "answer"):
        header |= dict.fromkeys(column for row in flat for column in row if column.partition(".")[0] == name)
    text = StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows([_text(row.get(column)) for column in header] for row in flat)
    return text.getvalue()


def _spread(row: JsonObject, name: str) -> JsonObject:
    value = row[name]
    if isinstance(value, dict):
        return {f"{name}.{key}": one for key, one in value.items()}
    return {} if value is None else {name: value}


def _text(value: JsonValue) -> str:
    """Return a value in a cell: a text as it is, nothing for null, anything else as JSON."""
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
