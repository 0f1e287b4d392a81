"""`ao submit`: put a run into the local queue, for a worker to perform."""

import json
import os
from pathlib import Path
from typing import Unpack

import click

from ao_protocol.wire import JsonObject
from ao_runner.bell import ring
from ao_runner.blueprints import load_blueprint, load_object
from ao_runner.cli.contract import ContractOptions, contract_options, demand_from
from ao_runner.cli.options import EXISTING_FILE, examples, home_option, json_option
from ao_runner.cli.parameters import collect_parameters
from ao_runner.cli.profile_option import complete_profile
from ao_runner.cli.run import with_commands_folder
from ao_runner.cli.waiting import wait_for
from ao_runner.journal import timestamp
from ao_runner.order import new_run_id, new_session_id
from ao_runner.profiles import load_profile
from ao_runner.records import Run, Session
from ao_runner.run_queue import QueuedRun
from ao_runner.store import Store
from ao_runner.store_file import transaction
from ao_runner.worker.assignment import DEFAULT_EXECUTORS


class Given(ContractOptions):
    """What the command line gives this command."""

    blueprint: Path
    prompt: str | None
    pairs: tuple[str, ...]
    params_file: Path | None
    profile: str | None
    config_file: Path | None
    project_dir: Path
    timeout: float | None
    traceparent: str | None
    wait: bool
    as_json: bool
    home: Path


@click.command(
    "submit",
    epilog=examples(
        'ao submit pr-reviewer.yaml -p "Review PR 7"',
        'run=$(ao submit pr-reviewer.yaml -p "Review PR 7")',
        'ao submit pr-reviewer.yaml -p "Review PR 7" --profile reviewer --wait > review.json',
    ),
)
@click.argument("blueprint", type=EXISTING_FILE)
@click.option("-p", "--prompt", help="What to ask; - reads it from stdin. Without it, piped text is the prompt.")
@click.option("--param", "pairs", multiple=True, metavar="K=V", help="A parameter. JSON, unless K is text. Repeatable.")
@click.option("--params", "params_file", type=EXISTING_FILE, help="A JSON or YAML file with parameters.")
@click.option(
    "--profile", metavar="NAME|PATH", shell_complete=complete_profile, help="The profile or executor that performs it."
)
@click.option("--config", "config_file", type=EXISTING_FILE, help="A JSON or YAML file: the executor's configuration.")
@click.option(
    "--project-dir",
    type=click.Path(exists=True, file_okay=False, resolve_path=True, path_type=Path),
    default=".",
    show_default="here",
    help="The folder that the agent works in.",
)
@click.option("--timeout", type=click.FloatRange(0, min_open=True), metavar="SECONDS", help="End the run then.")
@click.option("--traceparent", envvar="TRACEPARENT", help="A W3C trace context to go on with; also TRACEPARENT.")
@click.option("--wait", is_flag=True, help="Wait for the end, and show the result as `ao run` does.")
@json_option("Print run_id, session_id and status as JSON; with --wait the terminal event.")
@contract_options
@home_option
def command(**given: Unpack[Given]) -> None:
    """Put a run of BLUEPRINT into the queue of this host and print the run's id. A worker performs it: `ao worker`."""
    loaded = load_blueprint(given["blueprint"])
    profile_name = given["profile"] or DEFAULT_EXECUTORS[loaded.blueprint.type]
    profile = load_profile(profile_name, given["home"], os.environ)
    config = {} if given["config_file"] is None else load_object(given["config_file"])
    session = Session(
        session_id=new_session_id(),
        created_at=timestamp(),
        executor_name=profile.executor,
        executor_path=profile.executor,
        project_dir=str(given["project_dir"]),
        blueprint=loaded.document,
        executor_config=with_commands_folder(config, loaded),
        profile=profile_name,
    )
    parameters = collect_parameters(loaded.blueprint, given["prompt"], given["pairs"], given["params_file"])
    with Store(given["home"]) as store:
        demand = demand_from(given, loaded.blueprint, store)
        run = Run(
            new_run_id(), session.session_id, "start", parameters, session.created_at, "queued", contract=demand.record
        )
        metadata: JsonObject = {} if given["traceparent"] is None else {"traceparent": given["traceparent"]}
        with transaction(store.connection):
            store.add_session(session)
            store.queue.add(QueuedRun(run, profile_name, given["timeout"], metadata))
        ring(given["home"])
        if given["wait"]:
            wait_for(store, given["home"], run, "json" if given["as_json"] else "people")
        elif given["as_json"]:
            click.echo(json.dumps({"run_id": run.run_id, "session_id": run.session_id, "status": "queued"}))
        else:
            click.echo(run.run_id)
