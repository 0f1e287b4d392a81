"""Options and arguments that several commands share."""

import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias, TypedDict

import click
from click.shell_completion import CompletionItem

from ao_runner.errors import RunnerError
from ao_runner.home import default_home

Decorator: TypeAlias = Callable[[Callable[..., Any]], Callable[..., Any]]
Command: TypeAlias = Callable[..., Any]
Style: TypeAlias = Literal["json", "events", "people"]


class FiniteSeconds(click.FloatRange):
    """A number of seconds; neither for ever nor nothing that is a number."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:  # noqa: ANN401
        """Return the number."""
        seconds = float(super().convert(value, param, ctx))
        if not math.isfinite(seconds):
            self.fail(f"{value!r} is not a finite number of seconds; omit the option for no limit", param, ctx)
        return seconds


SECONDS: Final = FiniteSeconds(0, min_open=True)
EXISTING_FILE: Final = click.Path(exists=True, dir_okay=False, path_type=Path)


def examples(*lines: str) -> str:
    """Return an epilog that shows command lines as they are."""
    return "\n".join(["\b", "Examples:", *(f"  {line}" for line in lines)])


def wants_colour() -> bool:
    """Tell whether the person lets a terminal show colours (no-color.org)."""
    return not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def home_option(command: Command) -> Command:
    """Add `--home`: the folder of the local store."""
    return click.option(
        "--home",
        envvar="AO_HOME",
        type=click.Path(file_okay=False, path_type=Path),
        callback=lambda _ctx, _parameter, value: (value or default_home()).absolute(),
        help="Folder where sessions and runs are stored; also AO_HOME.  [default: the user's data folder]",
    )(command)


def session_argument(command: Command) -> Command:
    """Add the argument SESSION: the id of a session or of a run in it, the beginning of one, or `last`."""
    return click.argument("session", shell_complete=complete_session)(command)


def json_option(help_text: str) -> Decorator:
    """Return an option `--json`."""
    return click.option("--json", "as_json", is_flag=True, help=help_text)


def model_script_option(command: Command) -> Command:
    """Add `--model-script`."""
    return click.option("--model-script", type=EXISTING_FILE, help="Answer from this script instead of a model.")(
        command
    )


def keep_rejected_option(command: Command) -> Command:
    """Add `--keep-rejected`, which is the default, and `--no-keep-rejected`."""
    return click.option(
        "--keep-rejected/--no-keep-rejected",
        default=True,
        show_default=True,
        help="Store answers that did not fit the schema, for `ao result --attempts`.",
    )(command)


class RunOptions(TypedDict):
    """What `run` and `resume` have in common."""

    timeout: float | None
    model_script: Path | None
    style: Style | None
    home: Path


def run_options(command: Command) -> Command:
    """Add the options of `RunOptions`."""
    for decorate in (
        home_option,
        click.option("--events", "style", flag_value="events", help="Print every event as a JSON line."),
        click.option("--json", "style", flag_value="json", help="Print the terminal event instead of the result."),
        model_script_option,
        click.option("--timeout", type=SECONDS, metavar="SECONDS", help="Stop the run after SECONDS."),
    ):
        command = decorate(command)
    return command


def complete_session(ctx: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the sessions and runs whose ids begin so."""
    from ao_runner.store.store import Store

    try:
        with Store(ctx.params.get("home") or default_home()) as store:
            names = {session.session_id: session.agent_name for session in store.list_sessions()}
            runs = {state.run.run_id: names.get(state.run.session_id, "") for state in store.queue.list_states()}
    except RunnerError:
        return []
    return [
        CompletionItem(name, help=agent) for name, agent in {**names, **runs}.items() if name.startswith(incomplete)
    ]


def complete_executor(_ctx: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the executors whose names begin so."""
    from ao_runner.discovery.locate import list_executors

    return [CompletionItem(name) for name in list_executors() if name.startswith(incomplete)]
