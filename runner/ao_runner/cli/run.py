"""`ao run`: a blueprint and a prompt in, a result out."""

import os
from pathlib import Path
from typing import Unpack

import click

from ao_runner.blueprints.loading import load_blueprint, load_object
from ao_runner.cli.contract import ContractOptions, contract_options, demand_from, verify_option
from ao_runner.cli.options import EXISTING_FILE, RunOptions, complete_executor, examples, run_options
from ao_runner.cli.parameters import AgentOptions, agent_options, collect_parameters
from ao_runner.cli.perform import perform_wish, wish_from
from ao_runner.cli.profile_option import profile_option
from ao_runner.cli.profile_path import with_whole_path
from ao_runner.cli.remarks import show_oddities, show_unknown_settings
from ao_runner.cli.settings import SettingOptions, setting_options, with_settings
from ao_runner.discovery.locate import locate_executor
from ao_runner.profiles import Profile, load_profile
from ao_runner.runs.lost_runs import end_lost_runs
from ao_runner.runs.run_request import DEFAULT_EXECUTORS, new_run_id, new_session_id, with_commands_folder
from ao_runner.store.records import Run, Session, timestamp
from ao_runner.store.store import Store


class Given(RunOptions, AgentOptions, ContractOptions, SettingOptions):
    """What the command line gives this command."""

    blueprint: Path
    executor: str | None
    profile: str | None


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
@profile_option
@setting_options
@contract_options
@verify_option
@run_options
def command(**given: Unpack[Given]) -> None:
    """Run the agent of BLUEPRINT (JSON or YAML) and show its result.

    Progress goes to stderr; stdout receives the result only. The first Ctrl-C asks the agent to stop, the second
    kills it. In both cases the run and its session are stored.
    """
    loaded = load_blueprint(given["blueprint"])
    show_oddities(loaded)
    profile = _profile(given, DEFAULT_EXECUTORS[loaded.blueprint.type])
    executor = locate_executor(profile.executor)
    config = {} if given["config_file"] is None else load_object(given["config_file"])
    show_unknown_settings(profile, config, given["config_file"])
    config = with_settings(config, given, profile, executor)
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
    parameters = collect_parameters(loaded.blueprint, given["prompt"], given["pairs"], given["params_file"])
    with Store(given["home"]) as store:
        end_lost_runs(store, given["home"])
        demand = demand_from(given, loaded.blueprint, store)
        run = Run(new_run_id(), session.session_id, "start", parameters, session.created_at, contract=demand.record)
        perform_wish(wish_from(given, demand), store, session, run, profile)


def _profile(given: Given, usual_executor: str) -> Profile:
    if given["profile"] is not None and given["executor"] is not None:
        raise click.UsageError("Use either --profile or --executor: a profile names its executor.")
    if given["executor"] is not None:
        executor = locate_executor(given["executor"])
        return Profile(name=executor.name, executor=str(executor.path))
    return load_profile(given["profile"] or usual_executor, given["home"], os.environ)
