"""`ao run` and `ao resume`: perform a blueprint with a prompt; continue a stored session with another prompt."""

import asyncio
import os
import stat
import sys
import time
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn, Unpack

import click
from pydantic import JsonValue

from ao_protocol.contracts import (
    InvalidOptions,
    Problem,
    demands_of_blueprint,
)
from ao_protocol.contracts.contract import PLACE as OPTIONS_PLACE
from ao_protocol.documents import Blueprint
from ao_protocol.events import Terminal
from ao_protocol.json_path import ROOT, below
from ao_protocol.wire import JsonObject
from ao_protocol.written import NotInteroperable, check_interoperable, decode_text, parse_json
from ao_runner.blueprints.loading import LoadedBlueprint, load_blueprint, load_object, oddities
from ao_runner.cli.options import (
    EXISTING_FILE,
    RunArguments,
    agent_options,
    complete_executor,
    contract_options,
    examples,
    no_schema_option,
    profile_option,
    prompt_option,
    run_options,
    session_argument,
    setting_options,
    split_pair,
    verify_option,
    with_whole_path,
)
from ao_runner.cli.printing import echo, show_remarks
from ao_runner.cli.run_end import show_terminal
from ao_runner.cli.run_progress import follow_run
from ao_runner.discovery import ExecutorNotFound, locate_executor
from ao_runner.errors import RunnerError
from ao_runner.processes.containment import Containment, probe
from ao_runner.profiles import Profile, load_profile
from ao_runner.runs.acceptance import NO_CONTRACT, CallerDemand
from ao_runner.runs.admission import (
    CannotResume,
    ContractRefused,
    Demand,
    OptionsWithoutSchema,
    blueprint_of,
    check_resumable,
    demand_for,
)
from ao_runner.runs.input_requests import PARKED, InputPolicy, InputRequests
from ao_runner.runs.lost_runs import fail_lost_runs
from ao_runner.runs.outcome import exit_code_of
from ao_runner.runs.run import StoredJournal, perform_single_run
from ao_runner.runs.run_request import (
    DEFAULT_EXECUTORS,
    RunRequest,
    StopRequests,
    new_run_id,
    new_session_id,
    on_signals,
    request_under,
    with_commands_folder,
)
from ao_runner.store.opening import LOCAL
from ao_runner.store.ownership import own_runs
from ao_runner.store.records import Run, Session, timestamp
from ao_runner.store.sqlite_store import SqliteStore
from ao_runner.store.store import Store

if TYPE_CHECKING:
    from ao_runner.model_script import RunningSimulator

STDIN: Final = "-"
ANSWERS_SECONDS: Final = 0.3
"""How often a run looks for answers from elsewhere while it waits for one."""
MISSING_PROMPT: Final = "Missing prompt: use -p TEXT, or pipe it in."


@click.command(
    "run",
    epilog=examples(
        'ao run pr-reviewer.yaml -p "Review PR 7"',
        "git diff | ao run pr-reviewer.yaml",
        "ao run fixer.yaml -p \"Fix the build\" --model opus --allow Edit --allow 'Bash(make *)'",
        'ao run writer.yaml --param topic="AI safety" --param max_words=500',
        'ao run pr-reviewer.yaml -p "Review PR 7" --model-script answers.yaml',
        'ao run pr-reviewer.yaml -p "Review PR 7" > review.json',
        'ao run helper.yaml -p "Which files?" --output-schema files.json --output-option max_retries=1',
    )
    + "\n\n\b\n"
    "Exit codes: 0 result, 1 failure, 2 usage error, nothing was run, 64 run refused,\n"
    "75 temporary failure, 130 cancelled.",
)
@click.argument("blueprint", type=EXISTING_FILE)
@agent_options
@click.option(
    "--executor", metavar="NAME|PATH", shell_complete=complete_executor, help="Executor to use: a name or a path."
)
@profile_option("Profile to use; `ao executors` lists them.")
@setting_options
@contract_options
@verify_option
@run_options
def run_command(**given: Unpack[RunArguments]) -> None:
    """Run the agent of BLUEPRINT (JSON or YAML) and show its result.

    Progress goes to stderr; stdout receives the result only. The first Ctrl-C asks the agent to stop, the second
    kills it. In both cases the run and its session are stored.
    """
    loaded = load_blueprint(given["blueprint"])
    show_oddities(loaded)
    if given["executor"] is None:
        profile = load_profile(given["profile"] or DEFAULT_EXECUTORS[loaded.blueprint.type], given["home"], os.environ)
    elif given["profile"] is None:
        named = locate_executor(given["executor"])
        profile = Profile(name=named.name, executor=str(named.path))
    else:
        raise click.UsageError("Use either --profile or --executor: a profile names its executor.")
    executor = locate_executor(profile.executor)
    config = configuration_from(given, profile)
    session = Session(
        session_id=new_session_id(),
        created_at=timestamp(),
        executor_name=executor.name,
        executor_path=str(executor.path),
        project_dir=str(given["project_dir"]),
        blueprint=loaded.document,
        executor_config=with_commands_folder(config, loaded),
        profile=None if given["profile"] is None else with_whole_path(given["profile"]),
        is_simulated=given["model_script"] is not None,
    )
    parameters = collect_parameters(loaded.blueprint, given)
    with _store_of_this_host(given["home"]) as store:
        fail_lost_runs(store)
        demand = demand_from(given, loaded.blueprint, store)
        run = Run(new_run_id(), session.session_id, "start", parameters, session.created_at, contract=demand.record)
        _perform(given, demand, store, session, run, profile)


def _store_of_this_host(home: Path) -> Store:
    """Open the file of this host, in which these commands store their runs.

    Raises:
        click.UsageError: AO_STORE names a server, where the user would look for the run in vain.
    """
    if os.environ.get("AO_STORE", LOCAL) not in {LOCAL, ""}:
        raise click.UsageError(
            "`ao run` and `ao resume` store a run on this host only, and AO_STORE names a server."
            " Use `ao submit --wait`, or set AO_STORE=local."
        )
    return SqliteStore(home)


@click.command(
    "resume",
    epilog=examples(
        'ao resume last -p "Only the security issues, please"',
        'ao resume ses_4c5ab0 -p "And now as a table" --json',
        'ao resume last -p "Explain it in a paragraph" --no-schema',
    ),
)
@session_argument
@prompt_option
@contract_options
@no_schema_option
@verify_option
@run_options
def resume_command(**given: Unpack[RunArguments]) -> None:
    """Continue SESSION: its id or that of one of its runs, the beginning of one, or `last`.

    The agent keeps the conversation so far. Blueprint and configuration are those of the first run.
    """
    with _store_of_this_host(given["home"]) as store:
        fail_lost_runs(store)
        session = store.sessions.find(given["session"])
        check_resumable(session, is_open=False, has_script=given["model_script"] is not None)
        if not Path(session.project_dir).is_dir():
            raise CannotResume(
                f"the session's project folder {session.project_dir} does not exist; restore it, or start a new session"
            )
        if session.profile is not None:
            profile = load_profile(session.profile, given["home"], os.environ)
        else:
            try:
                path = locate_executor(session.executor_path).path
            except ExecutorNotFound:  # the executable may have moved
                path = locate_executor(session.executor_name).path
            profile = Profile(name=session.executor_name, executor=str(path))
        prompt = required_prompt(given["prompt"])
        demand = demand_from(given, blueprint_of(session), store)
        run = Run(new_run_id(), session.session_id, "resume", {"prompt": prompt}, timestamp(), contract=demand.record)
        _perform(given, demand, store, session, run, profile)


def _perform(
    given: RunArguments, demand: Demand, store: Store, session: Session, run: Run, profile: Profile
) -> NoReturn:
    """Perform a run, show it in the requested style, and exit with the exit code of its terminal event."""
    began_at = time.monotonic()
    containment = probe(os.environ)
    stops = StopRequests()
    home, style, script = given["home"], given["style"] or "people", given["model_script"]
    inputs = _inputs_of(profile, store, run, stops, is_shown=style == "people")
    with (
        own_runs(home) as owner,
        nullcontext() if script is None else _simulator(script, home) as simulator,
        follow_run(style, demand.attempts, stops.request) as listener,
    ):
        order = replace(
            request_under(profile, session, run, timeout_seconds=given["timeout"], environ=os.environ),
            simulation=simulator.simulation if simulator else None,
            first_parameters=store.runs.first(session.session_id).parameters if run.mode == "resume" else None,
            option_defaults=demand.defaults,
            verify_results=given["verify_results"],
            inputs=inputs,
        )
        shown = listener
        if inputs is not None and style == "people" and _has_terminal():
            from ao_runner.cli.asking import TerminalAsker

            shown = TerminalAsker(listener, inputs.give, run.run_id)
        journal = StoredJournal(store, run, shown, owner, session if run.mode == "start" else None)
        terminal = asyncio.run(_perform_order(order, journal, stops, home, containment))
    if style == "people":
        seconds = time.monotonic() - began_at
        show_terminal(terminal, store.sessions.find(session.session_id), seconds, store.runs.rejected_in(run.run_id))
    if simulator is not None and simulator.report:
        echo("! the model received requests that its script does not expect:", fg="yellow", err=True)
        for line in simulator.report.splitlines():
            echo(f"    {line}", err=True)
    sys.exit(int(exit_code_of(terminal)))


async def _perform_order(
    order: RunRequest, journal: StoredJournal, stops: StopRequests, home: Path, containment: Containment
) -> Terminal:
    with on_signals(stops.request):
        hearing = asyncio.ensure_future(_hear_answers(journal.store, journal.owner, order.inputs))
        try:
            return await perform_single_run(order, journal, stops, home, containment)
        finally:
            hearing.cancel()


def _has_terminal() -> bool:
    return sys.stdin.isatty() and sys.stderr.isatty()


def _inputs_of(
    profile: Profile, store: Store, run: Run, stops: StopRequests, *, is_shown: bool
) -> InputRequests | None:
    """Return the requests of a run to a person; None if its profile denies them, or says nothing and no one is here."""
    wait = profile.input
    if wait == "deny" or (wait is None and not (is_shown and _has_terminal())):
        return None

    async def decide(request_id: str, answer: JsonObject) -> JsonObject:
        from ao_runner.cli.answers import person

        given, by = (None if answer == PARKED else answer), (None if "by" in answer else person())
        with store.transaction():
            return store.inputs.decide(run.run_id, request_id, given, timestamp(), by) or PARKED

    policy = InputPolicy() if wait is None else InputPolicy(wait.wait_seconds, wait.then)
    return InputRequests(policy, decide, stops.request)


async def _hear_answers(store: Store, owner: str, inputs: InputRequests | None) -> None:
    """Look for answers from elsewhere while a request is open. A store that cannot be read is reported once."""
    is_told = False
    while inputs is not None:
        await asyncio.sleep(ANSWERS_SECONDS)
        if not inputs.is_waiting:
            continue
        try:
            with store.explaining():
                for one in store.inputs.answers_for(owner):
                    inputs.receive(one.request_id, one.answer or {})
        except RunnerError as error:
            if not is_told:
                echo(f"! an answer from elsewhere cannot be read: {error}", fg="yellow", err=True)
            is_told = True


def _simulator(script: Path, home: Path) -> AbstractContextManager["RunningSimulator"]:
    from ao_runner.model_script import play_model_script

    return play_model_script(script, home, os.environ)


def show_oddities(loaded: LoadedBlueprint) -> None:
    """Report the fields of a blueprint, and the keywords of its schemas, that are ignored."""
    if odd := oddities(loaded):
        show_remarks(str(loaded.path), odd)


def configuration_from(given: RunArguments, profile: Profile) -> JsonObject:
    """Return the executor's configuration on the command line, and report unknown settings.

    Raises:
        SettingRefused: The executor has no such setting.
        DescribeFailed: The executor does not describe itself.
    """
    config = {} if given["config_file"] is None else load_object(given["config_file"])
    is_set = any(
        given.get(name) not in (None, ()) for name in ("settings", "model", "permission_mode", "allowed_tools")
    )
    if not (config or profile.config or is_set):
        return config
    from ao_runner.cli.settings import show_unknown_settings, with_settings

    show_unknown_settings(profile, config, given["config_file"])
    return with_settings(config, given, profile) if is_set else config


def collect_parameters(blueprint: Blueprint, given: RunArguments) -> JsonObject:
    """Return the parameters of a start: the file's, then each `--param`, then the prompt.

    They are validated with the run. Those that the agent would not receive are reported on stderr.
    """
    schema = blueprint.parameters_schema
    parameters = {} if given["params_file"] is None else load_object(given["params_file"])
    prompt = given["prompt"]
    for pair in given["pairs"]:
        name, value = _parse_pair(pair, schema)
        parameters[name] = value
    if prompt is None and not parameters and schema is None:
        prompt = _prompt_from_pipe()
        if prompt is None and blueprint.type == "autonomous":
            raise click.UsageError(MISSING_PROMPT)
    if prompt is not None:
        parameters["prompt"] = _read_prompt(prompt)
    if schema is None and blueprint.type == "autonomous" and parameters.keys() > {"prompt"}:
        idle = "ignored; an agent without a parameters_schema takes only 'prompt'"
        show_remarks("parameters", [f"{below(ROOT, name)}: {idle}" for name in parameters if name != "prompt"])
    check_interoperable(parameters, place="parameters")
    return parameters


def required_prompt(prompt: str | None) -> str:
    """Return the prompt of a session's next run: from the option, or from stdin.

    Raises:
        click.UsageError: The prompt is missing.
    """
    found = _prompt_from_pipe() if prompt is None else _read_prompt(prompt)
    if not found:
        raise click.UsageError(MISSING_PROMPT)
    return found


def _read_prompt(prompt: str) -> str:
    return _piped_text() if prompt == STDIN else prompt


def _piped_text() -> str:
    return decode_text(sys.stdin.buffer.read(), "the prompt on stdin: ").replace("\r\n", "\n")


def _prompt_from_pipe() -> str | None:
    """Return the text of stdin; None if it is empty, or not a pipe, file or socket, such as a terminal or /dev/null."""
    try:
        mode = os.fstat(sys.stdin.fileno()).st_mode
    except (OSError, ValueError, AttributeError):
        return None
    if not (stat.S_ISFIFO(mode) or stat.S_ISREG(mode) or stat.S_ISSOCK(mode)):
        return None
    return _piped_text() or None


def _parse_pair(pair: str, schema: JsonObject | None) -> tuple[str, JsonValue]:
    """Parse `K=V`. V is text, unless the schema gives K a type other than string: then V is JSON.

    Raises:
        click.BadParameter: The `=` is missing, or V is not valid JSON.
    """
    name, text = split_pair(pair, "--param")
    described: Any = schema or {}
    for key in ("properties", name, "type"):
        described = described.get(key) if isinstance(described, dict) else None
    types = [item for item in (described if isinstance(described, list) else [described]) if isinstance(item, str)]
    if not types or "string" in types:
        return name, text
    try:
        return name, parse_json(text)
    except NotInteroperable as error:
        hint = f"{name} has the type {' or '.join(types)}, and {text[:80]!r} is not JSON that a run can carry: {error}"
        raise click.BadParameter(hint, param_hint="--param") from error


def demand_from(given: RunArguments, blueprint: Blueprint, store: Store) -> Demand:
    """Return the combined demand of the command line, the blueprint and the environment.

    Problems of the blueprint's own schema are reported by the run.

    Raises:
        ContractRefused: The demands contradict each other or the blueprint's, or an option is unknown or not valid.
        UnacceptableSchema: The schema is not acceptable.
        SchemaNotFound: No named schema has this name.
        UnreadableFile: The file of the schema cannot be read.
    """
    caller = _caller(given, store)
    if given.get("no_schema"):
        if caller.schema is not None or caller.options:
            raise click.UsageError("--no-schema asks for free text; omit it, or omit the other options of the output.")
        if demands_of_blueprint(blueprint).authoritative is not None:
            reason = "the agent's designer demands a schema of every answer, and it holds in all runs"
            raise ContractRefused([f"--no-schema is refused: {reason}"])
        return Demand(NO_CONTRACT)
    try:
        return demand_for(caller, blueprint, keeps_rejected=given["keep_rejected"])
    except OptionsWithoutSchema as error:
        reason = "--output-option needs an output schema, and there is none; add --output-schema FILE."
        raise click.UsageError(reason) from error
    except InvalidOptions as error:
        raise ContractRefused([_as_typed(problem) for problem in error.problems]) from error


def _caller(given: RunArguments, store: Store) -> CallerDemand:
    file, name = given["output_schema"], given["output_schema_name"]
    options: dict[str, JsonValue] = {}
    for pair in given["output_options"]:
        key, text = split_pair(pair, "--output-option")
        try:
            options[key] = parse_json(text)
        except NotInteroperable:
            options[key] = text
    if file is not None and name is not None:
        raise click.UsageError("Use either --output-schema or --output-schema-name.")
    if file is not None:
        from ao_runner.named_schemas.vetting import remarks_on, vet

        schema = load_object(file)
        vet(str(file), schema)
        show_remarks(str(file), remarks_on(schema))
        return CallerDemand(schema, None, options)
    if name is not None:
        from ao_runner.named_schemas.registry import SchemaRegistry

        return CallerDemand(SchemaRegistry(store).get(name).schema, name, options)
    return CallerDemand(options=options)


def _as_typed(problem: Problem) -> str:
    """Return a problem with the name of the command-line option instead of the path in the document."""
    option = problem.path.removeprefix(f"{OPTIONS_PLACE}.")
    return str(problem) if option == problem.path else f"--output-option {option}: {problem.message}"
