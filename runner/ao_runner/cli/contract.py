"""What a person demands of an answer on the command line: a schema, by file or by name, and how it is to be kept."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NotRequired, TypedDict

import click
from pydantic import JsonValue

from ao_protocol.contracts import (
    ContractOverridden,
    Demands,
    InvalidOptions,
    InvalidSchema,
    OptionDefaults,
    OutputContract,
    Problem,
    defaults_from,
    demands_of_blueprint,
    resolve_contract,
    takes_defaults,
)
from ao_protocol.contracts.contract import PLACE as OPTIONS_PLACE
from ao_protocol.contracts.contract import USUAL_DEFAULTS
from ao_protocol.documents import Blueprint
from ao_protocol.wire import JsonObject
from ao_runner.blueprints.loading import load_object
from ao_runner.blueprints.written_json import NotInteroperable, parse_json
from ao_runner.cli.options import EXISTING_FILE, Command, complete_schema_name, keep_rejected_option, split_pair
from ao_runner.cli.printing import show_remarks
from ao_runner.errors import RunnerError
from ao_runner.named_schemas.registry import SchemaRegistry, vet
from ao_runner.named_schemas.remarks import remarks_on
from ao_runner.runs.acceptance import NO_CONTRACT, CallerDemand, demand_record, demands_together
from ao_runner.runs.run_request import not_keeping_rejected_answers
from ao_runner.store.store import Store


class ContractOptions(TypedDict):
    """What the command line says of the output contract."""

    output_schema: Path | None
    output_schema_name: str | None
    output_options: tuple[str, ...]
    verify_results: NotRequired[bool]
    no_schema: NotRequired[bool]
    keep_rejected: bool


@dataclass(eq=False)
class ContractRefused(RunnerError):
    """What is demanded of the answer cannot be had."""

    reasons: Sequence[str]

    def __str__(self) -> str:
        return "; ".join(self.reasons)


@dataclass(frozen=True, slots=True)
class Demand:
    """What a run demands of its answer, as it is kept and sent, and what holds where nothing is said.

    `attempts` is how many answers the agent has; None where there is no contract, or only one answer ever.
    """

    record: JsonObject | None = None
    defaults: OptionDefaults = USUAL_DEFAULTS
    attempts: int | None = None
    verify_results: bool = False


def contract_options(command: Command) -> Command:
    """Add the options of `ContractOptions`."""
    for decorate in (
        keep_rejected_option,
        click.option(
            "--output-option",
            "output_options",
            multiple=True,
            metavar="K=V",
            help="Output option: max_retries, extract_json, strict_json_only, validation_mode, strategy. Repeatable.",
        ),
        click.option(
            "--output-schema-name",
            metavar="NAME",
            shell_complete=complete_schema_name,
            help="Name of a schema added with `ao schema add`.",
        ),
        click.option("--output-schema", type=EXISTING_FILE, help="JSON or YAML file with the schema of the answer."),
    ):
        command = decorate(command)
    return command


def no_schema_option(command: Command) -> Command:
    """Add `--no-schema`, for commands that continue sessions."""
    return click.option(
        "--no-schema", is_flag=True, help="Ask for free text, although the blueprint has a default schema."
    )(command)


def verify_option(command: Command) -> Command:
    """Add `--verify-results`, for commands that perform the run themselves."""
    return click.option("--verify-results", is_flag=True, help="Validate the result again in the runner.")(command)


def demand_from(options: ContractOptions, blueprint: Blueprint, store: Store) -> Demand:
    """Return what the command line, the agent and the environment demand together.

    What is wrong with the blueprint's own schema is left to whoever performs the run.

    Raises:
        ContractRefused: the demands contradict each other or the agent's own, or an option is unknown or impossible.
        UnacceptableSchema, SchemaNotFound, UnreadableFile: the schema cannot be had.
    """
    caller = _caller(options, store)
    designers = demands_of_blueprint(blueprint)
    if options.get("no_schema"):
        return _free_text(caller, designers)
    if caller.options and caller.schema is None and designers.authoritative is None and designers.default is None:
        raise click.UsageError("--output-option needs an output schema, and there is none; add --output-schema FILE.")
    verify = options.get("verify_results", False)
    try:
        demands = demands_together(blueprint, caller)
        defaults = defaults_from(os.environ) if takes_defaults(demands) else USUAL_DEFAULTS
        contract = resolve_contract(demands, defaults)
    except ContractOverridden as error:
        raise ContractRefused([str(error)]) from error
    except InvalidOptions as error:
        raise ContractRefused([_as_typed(problem) for problem in error.problems]) from error
    except InvalidSchema:
        contract = None
    record = demand_record(blueprint, caller, defaults)
    if not options["keep_rejected"]:
        record = not_keeping_rejected_answers(record)
    return Demand(record, defaults, _attempts(blueprint, contract), verify)


def _free_text(caller: CallerDemand, designers: Demands) -> Demand:
    if caller.schema is not None or caller.options:
        raise click.UsageError("--no-schema asks for free text; omit it, or omit the other options of the output.")
    if designers.authoritative is not None:
        raise ContractRefused(
            ["--no-schema is refused: the agent's designer demands a schema of every answer, and it holds in all runs"]
        )
    return Demand(NO_CONTRACT)


def _caller(options: ContractOptions, store: Store) -> CallerDemand:
    file, name = options["output_schema"], options["output_schema_name"]
    given = dict(_parsed_option(pair) for pair in options["output_options"])
    if file is not None and name is not None:
        raise click.UsageError("Use either --output-schema or --output-schema-name.")
    if file is not None:
        schema = load_object(file)
        vet(str(file), schema)
        show_remarks(str(file), remarks_on(schema))
        return CallerDemand(schema, None, given)
    if name is not None:
        return CallerDemand(SchemaRegistry(store).get(name).schema, name, given)
    return CallerDemand(options=given)


def _parsed_option(pair: str) -> tuple[str, JsonValue]:
    """Read `K=V`; V is JSON where it can be, else text."""
    name, text = split_pair(pair, "--output-option")
    try:
        value = parse_json(text)
    except NotInteroperable:
        value = text
    return name, value


def _as_typed(problem: Problem) -> str:
    """Return a problem as the person may look for it, who typed an option and no document."""
    option = problem.path.removeprefix(f"{OPTIONS_PLACE}.")
    return str(problem) if option == problem.path else f"--output-option {option}: {problem.message}"


def _attempts(blueprint: Blueprint, contract: OutputContract | None) -> int | None:
    is_asked_again = contract is not None and blueprint.type == "autonomous"
    return contract.max_retries + 1 if contract is not None and is_asked_again else None
