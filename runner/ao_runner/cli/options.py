"""Options and arguments that several commands share, and how they are completed."""

import os
import re
from collections.abc import Callable, Mapping
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, TypeVar

import click
from click.core import ParameterSource

from ao_runner.durations import FORMS, WITH_UNITS, seconds_from
from ao_runner.errors import RunnerError
from ao_runner.home import default_home

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from ao_protocol.wire import JsonObject
    from ao_runner.store.opening import StorePlace
    from ao_runner.store.store import Store

Value = TypeVar("Value")

Command: TypeAlias = Callable[..., Any]
Decorator: TypeAlias = Callable[[Command], Command]
Completer: TypeAlias = Callable[[click.Context, click.Parameter, str], list["CompletionItem"]]
Style: TypeAlias = Literal["json", "events", "people"]


class DurationOption(click.ParamType):  # type: ignore[type-arg]  # click is generic since 8.4
    """A duration in seconds; see `ao_runner.durations.seconds_from`."""

    name = "duration"

    def __init__(self, least_seconds: float = 0.0, *, needs_unit: bool = False) -> None:
        self._least_seconds, self._needs_unit = least_seconds, needs_unit

    def convert(self, value: str | float, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the seconds."""
        try:
            return float(str(seconds_from(value, self._least_seconds, needs_unit=self._needs_unit)))
        except ValueError as error:
            self.fail(str(error), param, ctx)


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


def values_of(pairs: tuple[str, ...], option: str) -> dict[str, Any]:
    """Return repeated `K=V` as an object. V is JSON, or else text."""
    from ao_protocol.written import NotInteroperable, parse_json

    values: dict[str, Any] = {}
    for name, text in (split_pair(pair, option) for pair in pairs):
        try:
            values[name] = parse_json(text)
        except NotInteroperable:
            values[name] = text
    return values


def short_name(profile: str) -> str:
    """Return what people call a profile: its name, also where it is known by its path."""
    return Path(profile).stem if "/" in profile else profile


def _completing(list_names: Callable[["StorePlace"], Mapping[str, str | None]]) -> Completer:
    """Return a function that completes the names in a store or in its home folder, each with an explanation."""

    def complete(ctx: click.Context, _parameter: click.Parameter, incomplete: str) -> list["CompletionItem"]:
        from click.shell_completion import CompletionItem

        from ao_runner.store.opening import LOCAL, StorePlace

        home = Path(ctx.params.get("home") or os.environ.get("AO_HOME") or default_home())
        try:
            names = list_names(StorePlace(home, ctx.params.get("store") or os.environ.get("AO_STORE") or LOCAL))
        except RunnerError:
            return []
        return [CompletionItem(name, help=about) for name, about in names.items() if name.startswith(incomplete)]

    return complete


def _completing_from(list_names: Callable[["Store"], Mapping[str, str | None]]) -> Completer:
    """Return a function that completes the names that a store lists."""

    def listed(place: "StorePlace") -> Mapping[str, str | None]:
        from ao_runner.store.store_file import FILE_NAME

        if place.is_local and not (place.home / FILE_NAME).exists():
            return {}
        with place.open() as store:
            return list_names(store)

    return _completing(listed)


def _ids(store: "Store") -> dict[str, str | None]:
    names: dict[str, str | None] = {each.session_id: each.agent_name for each in store.sessions.all()}
    return {**names, **{each.run.run_id: names.get(each.run.session_id) for each in store.runs.states()}}


def _open_runs(store: "Store") -> dict[str, str | None]:
    from ao_runner.store.records import OPEN_STATUSES

    return {state.run.run_id: state.run.status for state in store.runs.states(*OPEN_STATUSES)}


def _executors(_place: "StorePlace") -> dict[str, str | None]:
    from ao_runner.discovery import list_executors

    return dict.fromkeys(list_executors())


def _profiles(place: "StorePlace") -> dict[str, str | None]:
    from ao_runner.profiles import list_profiles

    found = list_profiles(place.home, os.environ)
    return {item.name: "broken" if item.profile is None else item.profile.executor for item in found}


complete_session: Final = _completing_from(_ids)
complete_open_run: Final = _completing_from(_open_runs)
complete_asking_run: Final = _completing_from(
    lambda store: {one.run_id: one.request_id for one in store.inputs.waiting()}
)
complete_batch: Final = _completing_from(lambda store: dict.fromkeys(store.runs.find_batches("")))
complete_executor: Final = _completing(_executors)
complete_profile: Final = _completing(_profiles)
complete_schema_name: Final = _completing_from(
    lambda store: {named.name: named.description for named in store.schemas.all()}
)


def complete_request(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list["CompletionItem"]:
    """Complete the requests that wait of the run before."""
    run_id = ctx.params.get("run")
    complete = _completing_from(
        lambda store: {one.request_id: one.asked_at for one in store.inputs.waiting() if one.run_id == run_id}
    )
    return complete(ctx, parameter, incomplete)


def _or_of_the_group(ctx: click.Context, option: click.Parameter, value: Value) -> Value:
    """Return the value of an option; where it is not given to a subcommand, that of the same option of the group."""
    name = option.name or ""
    is_given = ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE
    return value if is_given or ctx.parent is None else ctx.parent.params.get(name, value)


home_option: Final = click.option(
    "--home",
    envvar="AO_HOME",
    type=click.Path(file_okay=False, path_type=Path),
    callback=lambda ctx, option, value: _or_of_the_group(ctx, option, (value or default_home()).absolute()),
    help="Folder where sessions and runs are stored; also AO_HOME.  [default: the user's data folder]",
)
store_option: Final = click.option(
    "--store",
    envvar="AO_STORE",
    metavar="local|URL",
    default="local",
    callback=_or_of_the_group,
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


batch_argument: Final = click.argument("batch", shell_complete=complete_batch)
session_argument: Final = click.argument("session", shell_complete=complete_session)
all_option: Final = click.option("--all", "show_all", is_flag=True, help="List all, not only the newest twenty.")


def json_option(help_text: str) -> Decorator:
    """Return an option `--json`."""
    return click.option("--json", "as_json", is_flag=True, help=help_text)


def batch_option(help_text: str) -> Decorator:
    """Return an option `--batch`: the path of a file, or `-`."""
    kind = click.Path(exists=True, dir_okay=False, allow_dash=True)
    help_text = f"{help_text} of a file: JSON Lines, or CSV with a header; - is stdin. The options are their defaults."
    return click.option("--batch", type=kind, metavar="FILE", help=help_text)


def older_than_option(help_text: str) -> Decorator:
    """Return an option `--older-than`: a duration in seconds. It deletes, so its unit is not guessed."""
    type_ = DurationOption(needs_unit=True)
    text = f"{help_text}: {WITH_UNITS}."
    return click.option("--older-than", type=type_, required=True, metavar="DURATION", help=text)


def profile_option(help_text: str) -> Decorator:
    """Return an option `--profile`: for `load_profile`, or None."""
    return click.option("--profile", metavar="NAME|PATH", shell_complete=complete_profile, help=help_text)


RunArguments: TypeAlias = dict[str, Any]
"""The value of each option and argument of `run`, `resume` or `submit`, by its name; each has some of them."""


def in_utf8(_context: click.Context, _option: click.Parameter, folder: Path) -> Path:
    """Refuse a path that no line of the protocol can hold (SPEC 3)."""
    if any("\ud800" <= character <= "\udfff" for character in str(folder)):
        raise click.BadParameter(f"{str(folder)!r} is not UTF-8, and the protocol's lines are; rename the folder")
    return folder


timeout_option: Final = click.option(
    "--timeout",
    "timeout_seconds",
    type=DurationOption(0.001),
    metavar="DURATION",
    help=f"Stop the run after this time: {FORMS}.",
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
SETTING_OPTIONS: Final = {
    "model": "--model",
    "reasoning_effort": "--reasoning-effort",
    "show_reasoning": "--hide-reasoning",
    "access": "--access",
    "allowed_tools": "--allow-tool",
    "additional_folders": "--add-folder",
}
"""The options of `setting_options` by the field of the executor's configuration that they set."""
setting_options: Final = together(
    click.option("--model", metavar="NAME", help="Model to use, by its provider's name."),
    click.option("--reasoning-effort", metavar="NAME", help="How much the model thinks: low, medium, high."),
    click.option(
        "--hide-reasoning",
        "show_reasoning",
        is_flag=True,
        callback=lambda _context, _option, is_hidden: False if is_hidden else None,
        help="Do not report what the model thinks.",
    ),
    click.option(
        "--access",
        type=click.Choice(("read", "edit", "all")),
        help="What the agent may do without a question: read, also change files in its folders, or anything.",
    ),
    click.option(
        "--allow-tool",
        "--allow",
        "allowed_tools",
        multiple=True,
        metavar="NAME",
        help="Allow a tool without a question, or a rule such as 'Bash(git *)', by the agent's own names. Repeatable.",
    ),
    click.option(
        "--add-folder",
        "additional_folders",
        multiple=True,
        type=click.Path(exists=True, file_okay=False, resolve_path=True),
        help="Folder beside --project-dir in which the agent may work. Repeatable.",
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


def label_option(help_text: str) -> Decorator:
    """Return a repeatable option `--label`; its value is a dict."""
    return click.option(
        "--label",
        "labels",
        multiple=True,
        metavar="K=V",
        callback=lambda _ctx, _parameter, pairs: dict(split_pair(pair, "--label") for pair in pairs),
        help=help_text,
    )


def _attached(context: click.Context, option: click.Parameter, given: tuple[str, ...]) -> "tuple[JsonObject, ...]":
    """Return files as attachments with absolute paths. `FILE:TYPE` names the media type, unless it is a file itself."""
    if not given:
        return ()
    from ao_runner.runs.attaching import MediaTypeUnknown, attachment_of

    found = []
    for text in given:
        typed = None if Path(text).exists() else re.fullmatch("(.+):([^:/]+/[^:/]+)", text)
        file = EXISTING_FILE.convert(typed[1] if typed else text, option, context)
        try:
            found.append(attachment_of(file, typed[2] if typed else None).model_dump(exclude_none=True))
        except MediaTypeUnknown as error:
            raise click.BadParameter(str(error)) from error
    return tuple(found)


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
        help="Output option, repeatable: max_retries, extract_json, strict_json_only, validation_mode, strategy, "
        "ambiguous.",
    ),
    click.option("--no-schema", is_flag=True, help="Ask for free text, although the blueprint has a default schema."),
    keep_rejected_option,
    click.option(
        "--attach",
        "attachments",
        multiple=True,
        metavar="FILE[:TYPE]",
        callback=_attached,
        help="Attach a file to the prompt. TYPE is its media type, by default that of its suffix. Repeatable.",
    ),
    label_option("Label of the run, to find it by: `ao runs --label K=V`. Repeatable."),
    click.option(
        "--metadata",
        multiple=True,
        metavar="K=V",
        callback=lambda _ctx, _parameter, pairs: values_of(pairs, "--metadata"),
        help="Pass K to the executor, beside the parameters. V is JSON or text. Repeatable.",
    ),
    click.option("--traceparent", envvar="TRACEPARENT", help="W3C `traceparent` of the caller; also TRACEPARENT."),
)
run_options: Final = together(
    timeout_option,
    model_script_option,
    click.option("--json", "style", flag_value="json", help="Print the terminal event instead of the result."),
    click.option("--events", "style", flag_value="events", help="Print every event as a JSON line."),
    click.option("--verbose", is_flag=True, help="Show messages, and what the model thought, as a whole."),
    home_option,
)
