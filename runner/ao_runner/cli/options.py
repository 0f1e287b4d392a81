"""Options and arguments that several commands share, and how they are completed."""

import math
import os
import re
from collections.abc import Callable, Mapping
from datetime import timedelta
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, TypedDict, TypeVar

import click
from click.core import ParameterSource
from click.shell_completion import CompletionItem

from ao_runner.errors import RunnerError
from ao_runner.home import default_home

if TYPE_CHECKING:
    from ao_runner.store.opening import StorePlace

Value = TypeVar("Value")

Command: TypeAlias = Callable[..., Any]
Decorator: TypeAlias = Callable[[Command], Command]
Completer: TypeAlias = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]
Style: TypeAlias = Literal["json", "events", "people"]

PROFILE_SUFFIXES: Final = frozenset({".yaml", ".yml", ".json"})


class FiniteSeconds(click.FloatRange):
    """A number of seconds; neither for ever nor nothing that is a number."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:  # noqa: ANN401
        """Return the number."""
        seconds = float(super().convert(value, param, ctx))
        if not math.isfinite(seconds):
            self.fail(f"{value!r} is not a finite number of seconds; omit the option for no limit", param, ctx)
        return seconds


EXISTING_FILE: Final = click.Path(exists=True, dir_okay=False, path_type=Path)


def examples(*lines: str) -> str:
    """Return an epilog that shows command lines as they are."""
    return "\n".join(["\b", "Examples:", *(f"  {line}" for line in lines)])


def together(*decorators: Decorator) -> Decorator:
    """Return a decorator that adds several options, which `--help` shows in this order."""

    def decorate(command: Command) -> Command:
        for add in reversed(decorators):
            command = add(command)
        return command

    return decorate


def wants_colour() -> bool:
    """Tell whether the person lets a terminal show colours (no-color.org)."""
    return not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def split_pair(pair: str, option: str) -> tuple[str, str]:
    """Return K and V of `K=V`.

    Raises:
        click.BadParameter: it is not of this form; `option` is named.
    """
    name, equals, value = pair.partition("=")
    if not equals or not name:
        raise click.BadParameter(f"{pair!r} is not K=V", param_hint=option)
    return name, value


ORDERED_EXIT_CODE: Final = 10
"""With it, the worker beside a server tells that a person has drained it."""
DURATION_UNITS: Final = {"m": "minutes", "h": "hours", "d": "days"}


def duration_of(text: str) -> timedelta:
    """Read digits and a unit, such as `30d`, `12h` or `45m`."""
    found = re.fullmatch(r"([0-9]{1,5})([mhd])", text)
    if found is None:
        raise click.BadParameter(f"{text!r}; expected a number below 100000 with d, h or m: 30d, 12h, 45m")
    return timedelta(**{DURATION_UNITS[found[2]]: int(found[1])})


def valid_tags(_ctx: click.Context, _parameter: click.Parameter, tags: tuple[str, ...]) -> tuple[str, ...]:
    """Return the tags of an option.

    Raises:
        click.BadParameter: One of them has another form.
    """
    from ao_runner.store.records import TAG

    for tag in tags:
        if not TAG.fullmatch(tag):
            raise click.BadParameter(f"{tag!r} is no tag; expected letters, digits and . _ : / -, at most 128")
    return tags


def with_whole_path(profile: str) -> str:
    """Return the name of a profile as it is, and a path from the root on: the run may be performed elsewhere."""
    from ao_runner.discovery import expanded

    is_path = "/" in profile or Path(profile).suffix in PROFILE_SUFFIXES
    return str(expanded(profile).absolute()) if is_path else profile


def short_name(profile: str) -> str:
    """Return what people call a profile: its name, also where it is known by its path."""
    return Path(profile).stem if "/" in profile else profile


def _completing(list_names: Callable[["StorePlace"], Mapping[str, str | None]]) -> Completer:
    """Return a function that completes the names in a store or in its home folder, each with an explanation."""

    def complete(ctx: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
        from ao_runner.store.opening import LOCAL, StorePlace

        home = Path(ctx.params.get("home") or os.environ.get("AO_HOME") or default_home())
        try:
            names = list_names(StorePlace(home, ctx.params.get("store") or os.environ.get("AO_STORE") or LOCAL))
        except RunnerError:
            return []
        return [CompletionItem(name, help=about) for name, about in names.items() if name.startswith(incomplete)]

    return complete


def _ids(place: "StorePlace") -> dict[str, str | None]:
    with place.open() as store:
        names: dict[str, str | None] = {each.session_id: each.agent_name for each in store.list_sessions()}
        return {**names, **{each.run.run_id: names.get(each.run.session_id) for each in store.list_states()}}


def _open_runs(place: "StorePlace") -> dict[str, str | None]:
    from ao_runner.store.records import OPEN_STATUSES

    with place.open() as store:
        return {state.run.run_id: state.run.status for state in store.list_states(*OPEN_STATUSES)}


def _asking_runs(place: "StorePlace") -> dict[str, str | None]:
    with place.open() as store:
        return {one.run_id: one.request_id for one in store.waiting_requests()}


def _requests(place: "StorePlace", run_id: str | None) -> dict[str, str | None]:
    with place.open() as store:
        return {one.request_id: one.asked_at for one in store.waiting_requests() if one.run_id == run_id}


def _executors(_place: "StorePlace") -> dict[str, str | None]:
    from ao_runner.discovery import list_executors

    return dict.fromkeys(list_executors())


def _profiles(place: "StorePlace") -> dict[str, str | None]:
    from ao_runner.profiles import list_profiles

    found = list_profiles(place.home, os.environ)
    return {item.name: "broken" if item.profile is None else item.profile.executor for item in found}


def _schemas(place: "StorePlace") -> dict[str, str | None]:
    from ao_runner.named_schemas.registry import SchemaRegistry
    from ao_runner.store.store_file import FILE_NAME

    if place.is_local and not (place.home / FILE_NAME).exists():
        return {}
    with place.open() as store:
        return {named.name: named.description for named in SchemaRegistry(store).list()}


complete_session: Final = _completing(_ids)
complete_open_run: Final = _completing(_open_runs)
complete_asking_run: Final = _completing(_asking_runs)
complete_executor: Final = _completing(_executors)
complete_profile: Final = _completing(_profiles)
complete_schema_name: Final = _completing(_schemas)


def complete_request(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete the requests that wait of the run before."""
    return _completing(lambda place: _requests(place, ctx.params.get("run")))(ctx, parameter, incomplete)


home_option: Final = click.option(
    "--home",
    envvar="AO_HOME",
    type=click.Path(file_okay=False, path_type=Path),
    callback=lambda _ctx, _parameter, value: (value or default_home()).absolute(),
    help="Folder where sessions and runs are stored; also AO_HOME.  [default: the user's data folder]",
)
store_option: Final = click.option(
    "--store",
    envvar="AO_STORE",
    metavar="local|URL",
    default="local",
    help="Store of runs and sessions: the file in --home, or a PostgreSQL database of many hosts,"
    " postgresql://user@host/database; also AO_STORE.  [default: local]",
)


def store_options(function: Callable[..., object]) -> Callable[..., object]:
    """Add `--home` and `--store`, and pass both as `place`."""

    @wraps(function)
    def call(*arguments: object, home: Path, store: str, **given: object) -> object:
        from ao_runner.store.opening import StorePlace

        return function(*arguments, place=StorePlace(home, store), **given)

    return home_option(store_option(call))


session_argument: Final = click.argument("session", shell_complete=complete_session)
all_option: Final = click.option("--all", "show_all", is_flag=True, help="List all, not only the newest twenty.")


def chosen(ctx: click.Context, value: Value, *options: str) -> Value:
    """Return the value of the options of a subcommand if one of them is given, else that of the group's options."""
    is_given = any(ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE for name in options)
    return value if is_given or ctx.obj is None else ctx.obj


def json_option(help_text: str) -> Decorator:
    """Return an option `--json`."""
    return click.option("--json", "as_json", is_flag=True, help=help_text)


def older_than_option(help_text: str) -> Decorator:
    """Return an option `--older-than`: a duration."""
    return click.option(
        "--older-than",
        callback=lambda _ctx, _parameter, text: duration_of(text),
        required=True,
        metavar="DURATION",
        help=help_text,
    )


def profile_option(help_text: str) -> Decorator:
    """Return an option `--profile`: for `load_profile`, or None."""
    return click.option("--profile", metavar="NAME|PATH", shell_complete=complete_profile, help=help_text)


class RunArguments(TypedDict, total=False):
    """What the command line gives `run`, `resume` and `submit`; each has some of it.

    Of `blueprint` and `session`, `submit` has one; the other is None.
    """

    blueprint: Path
    session: str
    prompt: str | None
    pairs: tuple[str, ...]
    params_file: Path | None
    config_file: Path | None
    project_dir: Path
    executor: str | None
    profile: str | None
    model: str | None
    permission_mode: str | None
    allowed_tools: tuple[str, ...]
    settings: tuple[str, ...]
    output_schema: Path | None
    output_schema_name: str | None
    output_options: tuple[str, ...]
    keep_rejected: bool
    verify_results: bool
    no_schema: bool
    timeout: float | None
    model_script: Path | None
    traceparent: str | None
    requires: tuple[str, ...]
    priority: int
    not_before: str | None
    requeue: bool
    wait: bool
    as_json: bool
    style: Style | None
    home: Path
    store: str


def in_utf8(_context: click.Context, _option: click.Parameter, folder: Path) -> Path:
    """Refuse a path that no line of the protocol can hold (SPEC 3)."""
    if any("\ud800" <= character <= "\udfff" for character in str(folder)):
        raise click.BadParameter(f"{str(folder)!r} is not UTF-8, and the protocol's lines are; rename the folder")
    return folder


timeout_option: Final = click.option(
    "--timeout", type=FiniteSeconds(0, min_open=True), metavar="SECONDS", help="Stop the run after SECONDS."
)
model_script_option: Final = click.option(
    "--model-script", type=EXISTING_FILE, help="Answer from this script instead of a model."
)
keep_rejected_option: Final = click.option(
    "--keep-rejected/--no-keep-rejected",
    default=True,
    show_default=True,
    help="Store answers that did not fit the schema, for `ao result --attempts`.",
)
prompt_option: Final = click.option(
    "-p", "--prompt", help="Prompt; - reads it from stdin. If omitted, text piped to stdin is the prompt."
)
no_schema_option: Final = click.option(
    "--no-schema", is_flag=True, help="Ask for free text, although the blueprint has a default schema."
)
verify_option: Final = click.option("--verify-results", is_flag=True, help="Validate the result again in the runner.")
agent_options: Final = together(
    prompt_option,
    click.option(
        "--param",
        "pairs",
        multiple=True,
        metavar="K=V",
        help="Set parameter K. V is a string, or JSON if `parameters_schema` gives K another type. Repeatable.",
    ),
    click.option("--params", "params_file", type=EXISTING_FILE, help="JSON or YAML file with parameters."),
    click.option(
        "--config", "config_file", type=EXISTING_FILE, help="JSON or YAML file with the executor's configuration."
    ),
    click.option(
        "--project-dir",
        type=click.Path(exists=True, file_okay=False, resolve_path=True, path_type=Path),
        default=".",
        show_default="here",
        callback=in_utf8,
        help="Folder that the agent works in.",
    ),
)
setting_options: Final = together(
    click.option("--model", metavar="NAME", help="Model to use: model of the executor."),
    click.option(
        "--allow",
        "allowed_tools",
        multiple=True,
        metavar="RULE",
        help="Allow a tool, or a rule such as 'Bash(git *)': adds to allowed_tools of the executor. Repeatable.",
    ),
    click.option(
        "--permission-mode", metavar="MODE", help="What the agent may do unasked: permission_mode of the executor."
    ),
    click.option(
        "--set",
        "settings",
        multiple=True,
        metavar="K=V",
        help="Set K of the executor's configuration. V is JSON or text, as the executor's schema says; dots lead "
        "into K. Repeatable.",
    ),
)
contract_options: Final = together(
    click.option("--output-schema", type=EXISTING_FILE, help="JSON or YAML file with the schema of the answer."),
    click.option(
        "--output-schema-name",
        metavar="NAME",
        shell_complete=complete_schema_name,
        help="Name of a schema added with `ao schema add`.",
    ),
    click.option(
        "--output-option",
        "output_options",
        multiple=True,
        metavar="K=V",
        help="Output option: max_retries, extract_json, strict_json_only, validation_mode, strategy. Repeatable.",
    ),
    keep_rejected_option,
)
run_options: Final = together(
    timeout_option,
    model_script_option,
    click.option("--json", "style", flag_value="json", help="Print the terminal event instead of the result."),
    click.option("--events", "style", flag_value="events", help="Print every event as a JSON line."),
    home_option,
)
