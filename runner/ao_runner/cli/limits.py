"""`ao limits`: how many runs of an agent or of a profile may run at a time, on all hosts together."""

from dataclasses import asdict
from typing import Literal

import click

from ao_protocol.written import check_name
from ao_runner.cli.options import complete_profile, examples, json_option, store_options, together
from ao_runner.cli.printing import print_document, print_table, show_success
from ao_runner.errors import RunnerError
from ao_runner.store.limit_table import RunLimit
from ao_runner.store.opening import StorePlace

Kind = Literal["agent", "profile"]


_whose_options = together(
    click.option("--agent", metavar="NAME", help="The agent, by the name in its blueprint."),
    click.option("--profile", metavar="NAME", shell_complete=complete_profile, help="The profile or executor."),
)


@click.group(
    "limits",
    invoke_without_command=True,
    epilog=examples("ao limits", "ao limits set --profile reviewer 3", "ao limits remove --profile reviewer"),
)
@json_option("Print the limits as a JSON list.")
@store_options
@click.pass_context
def limits_command(ctx: click.Context, as_json: bool, place: StorePlace) -> None:
    """List how many runs of an agent or profile may run at a time, and how many do."""
    if ctx.invoked_subcommand is not None:
        return
    with place.open() as store:
        limits = store.limits.all()
    if as_json:
        print_document([asdict(limit) for limit in limits])
    else:
        rows = [[limit.kind, limit.name, str(limit.most), str(limit.running), limit.until or ""] for limit in limits]
        hint = "no limits yet; set one: ao limits set --profile NAME N"
        print_table(["KIND", "NAME", "MOST", "RUNNING", "UNTIL"], rows, if_empty=hint)


@limits_command.command("set", epilog=examples("ao limits set --agent triage 10", "ao limits set --profile reviewer 0"))
@_whose_options
@click.argument("most", metavar="N", type=click.IntRange(0))
@store_options
def set_limit(agent: str | None, profile: str | None, most: int, place: StorePlace) -> None:
    """Let at most N runs of an agent or profile run at a time; 0 pauses it. Runs that are running go on."""
    kind, name = _whose(agent, profile)
    with place.open() as store:
        store.limits.put(RunLimit(kind, check_name(name), most))
        store.notify()
    show_success(f"at most {most} runs of {kind} {name} at a time")


@limits_command.command("remove", epilog=examples("ao limits remove --agent triage"))
@_whose_options
@store_options
def remove_limit(agent: str | None, profile: str | None, place: StorePlace) -> None:
    """Remove the limit of an agent or profile, and the pause of a profile at a usage limit."""
    kind, name = _whose(agent, profile)
    with place.open() as store:
        is_removed = [
            store.limits.remove(one, name) for one in (["agent"] if kind == "agent" else ["profile", "pause"])
        ]
        if not any(is_removed):
            raise RunnerError(f"{kind} {name} has no limit; `ao limits` lists them")
        store.notify()
    show_success(f"{kind} {name} has no limit any more")


def _whose(agent: str | None, profile: str | None) -> tuple[Kind, str]:
    if (agent is None) == (profile is None):
        raise click.UsageError("Name one of --agent and --profile.")
    return ("agent", agent) if agent is not None else ("profile", str(profile))
