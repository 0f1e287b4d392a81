"""`ao run` and `ao resume`: perform a blueprint with a prompt; continue a stored session with another prompt."""

import asyncio
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn

import click

from ao_protocol.events import Terminal
from ao_protocol.wire import JsonObject
from ao_runner.blueprints.loading import load_blueprint
from ao_runner.cli.gating import conclude, gate_options
from ao_runner.cli.new_run import (
    accepted_from,
    collect_parameters,
    configuration_from,
    new_run,
    required_prompt,
    show_oddities,
)
from ao_runner.cli.options import (
    EXISTING_FILE,
    RunArguments,
    Style,
    agent_options,
    batch_option,
    complete_executor,
    contract_options,
    examples,
    profile_option,
    prompt_option,
    run_options,
    session_argument,
    setting_options,
    verify_option,
)
from ao_runner.cli.printing import echo
from ao_runner.cli.run_progress import follow_run
from ao_runner.cli.unread_run import UnreadRun
from ao_runner.discovery import locate_executor
from ao_runner.errors import RunnerError
from ao_runner.processes.containment import Containment, probe
from ao_runner.profiles import Profile, load_profile
from ao_runner.runs.input_requests import PARKED, InputPolicy, InputRequests
from ao_runner.runs.journal import Listener, StoredJournal, paused_profiles
from ao_runner.runs.run import perform_single_run, profile_to_continue, request_here
from ao_runner.runs.run_request import RunRequest, StopRequests, on_signals
from ao_runner.runs.submission import DEFAULT_EXECUTORS, AcceptedRun
from ao_runner.store.ownership import own_runs
from ao_runner.store.records import Run, timestamp
from ao_runner.store.sqlite_store import SqliteStore
from ao_runner.store.store import Store

if TYPE_CHECKING:
    from ao_runner.model_script import RunningSimulator

ANSWERS_SECONDS: Final = 0.3
"""How often a run looks for answers from elsewhere while it waits for one."""


@click.command(
    "run",
    epilog=examples(
        'ao run pr-reviewer.yaml -p "Review PR 7"',
        "git diff | ao run pr-reviewer.yaml",
        "ao run fixer.yaml -p \"Fix the build\" --model opus --access edit --allow-tool 'Bash(make *)'",
        'ao run invoice.yaml -p "Is it paid?" --attach invoice.pdf --attach receipt.png',
        'ao run writer.yaml --param topic="AI safety" --param max_words=500',
        'ao run pr-reviewer.yaml -p "Review PR 7" --model-script answers.yaml',
        'ao run pr-reviewer.yaml -p "Review PR 7" > review.json',
        'ao run pr-reviewer.yaml -p "Review PR 7" --fail-on denied,unfinished --fail-if "approval != \'approve\'"',
        "ao run triage.yaml --batch tickets.csv --concurrency 8 > answers.jsonl",
        'ao run helper.yaml -p "Which files?" --output-schema files.json --output-option max_retries=1',
    )
    + "\n\n\b\n"
    "Exit codes: 0 result, 1 failure, 2 usage error, nothing was run, 3 result refused by\n"
    "--fail-on or --fail-if, 64 run refused, 75 temporary failure, 130 cancelled.",
)
@click.argument("blueprint", type=EXISTING_FILE, required=False)
@agent_options
@batch_option("Perform a run for each line")
@click.option("--concurrency", type=click.IntRange(1), default=4, show_default=True, help="Runs of --batch at a time.")
@click.option(
    "--executor", metavar="NAME|PATH", shell_complete=complete_executor, help="Executor to use: a name or a path."
)
@profile_option("Profile to use; `ao executors` lists them.")
@setting_options
@contract_options
@verify_option
@gate_options
@run_options
def run_command(**given: Any) -> None:  # noqa: ANN401  # what click gives
    """Run the agent of BLUEPRINT (JSON, YAML, or an agent file of Claude Code or OpenCode) and show its result.

    Progress goes to stderr; stdout receives the result only. The first Ctrl-C asks the agent to stop, the second
    kills it. In both cases the run and its session are stored.

    With --batch, the lines of a file are requests, see `ao submit --help`, or nothing is run if one is wrong. stdout
    receives a line of JSON for each run when it ends, a terminal a table at the end. The exit code is the highest one.
    """
    if given["batch"] is not None:
        from ao_runner.cli.run_batch import run_batch

        run_batch(given)
    if given["blueprint"] is None:
        raise click.UsageError("Missing argument 'BLUEPRINT'.")
    loaded = load_blueprint(given["blueprint"])
    show_oddities(loaded)
    executor = None
    if given["executor"] is None:
        profile = load_profile(given["profile"] or DEFAULT_EXECUTORS[loaded.blueprint.type], given["home"], os.environ)
    elif given["profile"] is None:
        executor = locate_executor(given["executor"])
        profile = Profile.of_executor(executor.name, str(executor.path))
    else:
        raise click.UsageError("Use either --profile or --executor: a profile names its executor.")
    asked = new_run(
        given,
        parameters=collect_parameters(loaded.blueprint, given),
        blueprint=loaded,
        executor=executor,
        executor_config=configuration_from(given, profile),
    )
    with store_of_this_host(given["home"]) as store:
        perform_here(given, store, accepted_from(asked, given, store), profile)


@contextmanager
def store_of_this_host(home: Path) -> Iterator[Store]:
    """Yield the store of this host, in which these commands store their runs, after the end of all lost runs.

    Raises:
        click.UsageError: AO_STORE names a server, where the user would look for the run in vain.
    """
    if named := os.environ.get("AO_STORE"):
        from ao_runner.store.opening import LOCAL

        if named != LOCAL:
            raise click.UsageError(
                "`ao run` and `ao resume` store a run on this host only, and AO_STORE names a server."
                " Use `ao submit --wait`, or set AO_STORE=local."
            )
    with SqliteStore(home) as store:
        if store.runs.are_running():
            from ao_runner.runs.lost_runs import fail_lost_runs

            fail_lost_runs(store)
        yield store


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
@profile_option("Profile or executor that performs the run, instead of the session's.")
@contract_options
@verify_option
@gate_options
@run_options
def resume_command(**given: Any) -> None:  # noqa: ANN401  # what click gives
    """Continue SESSION: its id or that of one of its runs, the beginning of one, or `last`.

    The agent keeps the conversation so far. Blueprint and configuration are those of the first run.
    """
    with store_of_this_host(given["home"]) as store:
        session = store.sessions.find(given["session"])
        prompt = {"prompt": required_prompt(given["prompt"])}
        asked = new_run(given, parameters=prompt, session_id=session.session_id)
        profile = profile_to_continue(session, asked.profile or session.profile, given["home"])
        perform_here(given, store, accepted_from(asked, given, store), profile)


def perform_here(
    given: RunArguments,
    store: Store,
    accepted: AcceptedRun,
    profile: Profile,
    listening: Callable[[Callable[[], None]], AbstractContextManager[Listener]] | None = None,
    parent: int | None = None,
) -> NoReturn:
    """Perform a run, show it in the requested style, and exit with the exit code of its terminal event.

    `listening` gives another listener than that of the style, for a function that stops the run. The run also stops
    when the process `parent` ends.
    """
    began_at = time.monotonic()
    containment = probe(os.environ)
    stops = StopRequests()
    style: Style = given["style"] or "people"
    unread = UnreadRun(style, stops, parent)
    home, run = given["home"], accepted.run
    if listening is None:
        listening = partial(follow_run, style, accepted.attempts, is_verbose=given["verbose"])
    inputs = _inputs_of(profile, store, run, stops, is_shown=style == "people")
    with (
        own_runs(home) as owner,
        nullcontext() if given["model_script"] is None else simulator_of(given["model_script"], home) as simulator,
        listening(unread.stop) as listener,
    ):
        simulation = None if simulator is None else simulator.simulation
        verify = given["verify_results"]
        request = request_here(
            accepted, profile, store, home, simulation=simulation, verify_results=verify, inputs=inputs
        )
        shown = listener
        if inputs is not None and style == "people" and _has_terminal():
            from ao_runner.cli.asking import TerminalAsker

            shown = TerminalAsker(listener, inputs.give, run.run_id)
        new_session = accepted.session if accepted.is_new_session else None
        journal = StoredJournal(store, run, shown, owner, new_session, paused_profiles(run, profile))
        terminal = asyncio.run(_perform_and_hear(request, journal, stops, home, containment, unread))
    if style == "people":
        from ao_runner.cli.progress_lines import show_terminal

        show_terminal(terminal, run, store, began_at)
    if simulator is not None and simulator.report:
        echo("! the model received requests that its script does not expect:", fg="yellow", err=True)
        for line in simulator.report.splitlines():
            echo(f"    {line}", err=True)
    sys.exit(conclude(given, terminal, run, store))


def simulator_of(script: Path, home: Path) -> AbstractContextManager["RunningSimulator"]:
    """Serve a model simulator in a `with` block, and yield it."""
    from ao_runner.model_script import play_model_script

    return play_model_script(script, home, os.environ)


async def _perform_and_hear(
    request: RunRequest,
    journal: StoredJournal,
    stops: StopRequests,
    home: Path,
    containment: Containment,
    unread: UnreadRun,
) -> Terminal:
    with on_signals(stops.request), unread.watched():
        hearing = asyncio.ensure_future(_hear_answers(journal.store, journal.owner, request.inputs))
        try:
            return await perform_single_run(request, journal, stops, home, containment)
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
        from ao_runner.cli.inputs import person

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
