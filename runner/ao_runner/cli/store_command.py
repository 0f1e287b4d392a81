"""`ao store`: create, change, check and prune the store of runs and sessions, for its operator."""

from dataclasses import asdict
from datetime import timedelta

import click

from ao_runner.cli.options import examples, json_option, older_than_option, store_options
from ao_runner.cli.printing import counted, echo, print_document, print_table, report, show_success
from ao_runner.diagnosis import examine_store
from ao_runner.store.opening import StorePlace
from ao_runner.store.store_file import FILE_NAME

FOR_SERVERS = "this is for a PostgreSQL database (--store or AO_STORE), and the store is a file of this host: {}"


@click.group("store", epilog=examples("ao store check", "ao store init --store postgresql://ao@db.example/ao"))
def store_command() -> None:
    """Create, change, check and prune the store of runs and sessions."""


@store_command.command(
    "init", short_help="Create the tables.", epilog=examples("ao store init --store postgresql://ao@db.example/ao")
)
@store_options
def init(place: StorePlace) -> None:
    """Create the tables of a database, or the file of this host, as the first other command does."""
    if place.is_local:
        existed = (place.home / FILE_NAME).exists()
    else:
        from ao_runner.store.postgres_operations import layout_at

        existed = layout_at(place) > 0
    with place.open() as store:
        show_success(f"{store.place} {'has its tables already' if existed else 'now has its tables'}")


@store_command.command(
    "migrate",
    short_help="Change the tables to the newest layout.",
    epilog=examples("ao store migrate --store postgresql://ao@db.example/ao"),
)
@store_options
def migrate(place: StorePlace) -> None:
    """Change a database to the layout of this version of ao, and create the tables for the next weeks.

    Active workers of the version before go on working. If the new layout excludes them, nothing is changed.
    """
    if place.is_local:
        raise click.UsageError(FOR_SERVERS.format("each version of ao changes it when it opens it"))
    from ao_runner.store.postgres_operations import migrate_at

    before, after = migrate_at(place)
    change = f"has layout {after} already" if before == after else f"changed from layout {before} to layout {after}"
    show_success(f"{place.name} {change}")


@store_command.command(
    "check", short_help="Check the store.", epilog=examples("ao store check", "ao store check --json")
)
@json_option("Print the findings as a JSON object.")
@store_options
def check(as_json: bool, place: StorePlace) -> None:
    """Check the store, as `ao doctor` does among other things. Exit codes: 0 ready, 1 something has to be fixed."""
    report(examine_store(place), as_json=as_json)


@store_command.command(
    "prune", short_help="Drop the events of old weeks.", epilog=examples("ao store prune --older-than 30d --dry-run")
)
@older_than_option("Time since the end of the week in which the runs were added")
@click.option("--dry-run", is_flag=True, help="Print what would be dropped, and drop nothing.")
@json_option(
    "Print a JSON object: the weeks `dropped`, and `kept` because of runs that are not over; `workers` dropped."
)
@store_options
def prune(older_than: float, dry_run: bool, as_json: bool, place: StorePlace) -> None:
    """Drop the events of old weeks from a database, each with its table, and the workers that ended over a week ago.

    A week stays while one of its runs is queued or running. Sessions, runs and their records stay: `ao result` and
    `ao events` of a run whose events were dropped say so and exit with 1.
    """
    if place.is_local:
        raise click.UsageError(FOR_SERVERS.format("delete old sessions with `ao sessions prune`"))
    from ao_runner.store.postgres_operations import forget_workers, prune_events

    workers = forget_workers(place, dry_run=dry_run)
    dropped, kept = prune_events(place, timedelta(seconds=older_than), dry_run=dry_run)
    if as_json:
        weeks = {"dropped": [asdict(one) for one in dropped], "kept": [asdict(one) for one in kept]}
        print_document({**weeks, "workers": workers})
        return
    print_table(["WEEK", "RUNS", "MIB"], [[one.week, str(one.runs), f"{one.bytes / 2**20:.1f}"] for one in dropped])
    for one in kept:
        echo(f"week {one.week} stays: {counted(one.open_runs, 'run')} not over, see `ao runs`", err=True)
    word = "would be dropped" if dry_run else "dropped"
    advice = "; `ao result` of their runs says so, `ao result --record` still works" if dropped else ""
    echo(f"events of {counted(len(dropped), 'week')} {word}{advice}", err=True)
    if workers:
        echo(f"{counted(workers, 'worker')} that ended over a week ago {word}", err=True)
