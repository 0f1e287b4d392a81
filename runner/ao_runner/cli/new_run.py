"""What a command line says of a run, as the request that every door makes; `ao run`, `ao resume` and `ao submit`."""

import os
import stat
import sys
from collections.abc import Collection
from dataclasses import fields as dataclass_fields
from dataclasses import replace
from typing import Any, Final

import click
from pydantic import JsonValue

from ao_protocol.contracts import Problem
from ao_protocol.documents import Blueprint
from ao_protocol.json_path import ROOT, below
from ao_protocol.wire import JsonObject
from ao_protocol.written import NotInteroperable, check_interoperable, decode_text, parse_json
from ao_runner.blueprints.loading import LoadedBlueprint, load_object, oddities
from ao_runner.cli.options import SETTING_OPTIONS, RunArguments, split_pair, values_of
from ao_runner.cli.printing import show_remarks
from ao_runner.profiles import Profile, with_whole_path
from ao_runner.runs.submission import AcceptedRun, NewRun, Reception, RefusalReason, RunRefused, accept
from ao_runner.store.records import CallerTerms
from ao_runner.store.store import Store

STDIN: Final = "-"
MISSING_PROMPT: Final = "Missing prompt: use -p TEXT, or pipe it in."


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
    is_set = any(given[name] not in (None, ()) for name in ("settings", *SETTING_OPTIONS))
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
    parameters = parameters_of_options(schema, given)
    prompt = given["prompt"]
    if prompt is None and not parameters and schema is None:
        prompt = _prompt_from_pipe()
        if prompt is None and blueprint.type == "autonomous":
            raise click.UsageError(MISSING_PROMPT)
    if prompt is not None:
        parameters["prompt"] = _read_prompt(prompt)
    show_ignored(blueprint, parameters)
    check_interoperable(parameters, place="parameters")
    return parameters


def parameters_of_options(schema: JsonObject | None, given: RunArguments) -> JsonObject:
    """Return the parameters of the file, then those of each `--param`."""
    parameters = {} if given["params_file"] is None else load_object(given["params_file"])
    for name, text in (split_pair(pair, "--param") for pair in given["pairs"]):
        parameters[name] = typed_value(name, text, schema)
    return parameters


def show_ignored(blueprint: Blueprint, names: Collection[str]) -> None:
    """Report the parameters that an agent with a prompt would not receive."""
    if blueprint.parameters_schema is None and blueprint.type == "autonomous" and "prompt" in names:
        idle = "ignored; an agent without a parameters_schema takes only 'prompt'"
        show_remarks("parameters", [f"{below(ROOT, name)}: {idle}" for name in names if name != "prompt"])


def required_prompt(prompt: str | None) -> str:
    """Return the prompt of a session's next run: from the option, or from stdin.

    Raises:
        click.UsageError: The prompt is missing.
    """
    found = _prompt_from_pipe() if prompt is None else _read_prompt(prompt)
    if found is None:
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


def types_of(name: str, schema: JsonObject | None) -> list[str]:
    """Return the types that a schema gives a parameter; none if it does not say."""
    described: Any = schema or {}
    for key in ("properties", name, "type"):
        described = described.get(key) if isinstance(described, dict) else None
    return [item for item in (described if isinstance(described, list) else [described]) if isinstance(item, str)]


def typed_value(name: str, text: str, schema: JsonObject | None) -> JsonValue:
    """Return a text as parameter K: a text, unless the schema gives K a type other than string; then it is JSON.

    Raises:
        click.BadParameter: It is not valid JSON.
    """
    types = types_of(name, schema)
    if not types or "string" in types:
        return text
    try:
        return parse_json(text)
    except NotInteroperable as error:
        hint = f"{name} has the type {' or '.join(types)}, and {text[:80]!r} is not JSON that a run can carry: {error}"
        raise click.BadParameter(hint, param_hint="--param") from error


def new_run(given: RunArguments, **fields: Any) -> NewRun:  # noqa: ANN401  # those that are not options
    """Return the request of a command line: its options, and the fields that the command itself knows."""
    terms = {one.name: given[one.name] for one in dataclass_fields(CallerTerms)}
    if terms["profile"] is not None:
        terms["profile"] = with_whole_path(terms["profile"])
    if given["traceparent"] is not None:
        terms["metadata"] = {"traceparent": given["traceparent"], **terms["metadata"]}
    file = given["output_schema"]
    return NewRun(
        attachments=given["attachments"],
        output_schema=None if file is None else load_object(file),
        output_schema_name=given["output_schema_name"],
        output_schema_options=values_of(given["output_options"], "--output-option"),
        no_schema=given["no_schema"],
        keep_rejected=given["keep_rejected"],
        is_simulated=given["model_script"] is not None,
        **terms,
        **fields,
    )


def accepted_from(asked: NewRun, given: RunArguments, store: Store, *, is_queued: bool = False) -> AcceptedRun:
    """Return the accepted run of a command line, and report what in its schema has no effect.

    Raises:
        RunRefused: It is refused; the message names options of the command line in place of paths.
        UnacceptableSchema: The schema is not acceptable.
        SchemaNotFound: No named schema has this name.
    """
    show_remarks_on_schema(asked, given)
    try:
        return accept(asked, reception_of(given, store, is_queued=is_queued))
    except RunRefused as error:
        raise replace(error, message=_in_options(error)) from error


def reception_of(given: RunArguments, store: Store, *, is_queued: bool) -> Reception:
    """Return the place where the requests of a command line arrive."""
    return Reception(os.environ, given["home"], str(given.get("project_dir", "")), store, is_queued)


def show_remarks_on_schema(asked: NewRun, given: RunArguments) -> None:
    """Report what in the schema of `--output-schema` has no effect.

    Raises:
        UnacceptableSchema: The schema is not acceptable.
    """
    if asked.output_schema is not None:
        from ao_runner.named_schemas.vetting import remarks_on, vet

        vet(str(given["output_schema"]), asked.output_schema)
        show_remarks(str(given["output_schema"]), remarks_on(asked.output_schema))


_OPTIONS: Final = {
    "output_schema": "--output-schema",
    "output_schema_name": "--output-schema-name",
    "output_schema_options": "--output-option",
    "no_schema": "--no-schema",
    "timeout_seconds": "--timeout",
    "attachments": "--attach",
    "labels": "--label",
    "metadata": "--metadata",
    "requires": "--require",
    "project_dir": "--project-dir",
}
"""The options of a command line by the field of the request that they set."""


def _in_options(error: RunRefused) -> str:
    """Return the message of a refusal with options of the command line instead of paths in the request."""
    if error.reason is RefusalReason.PARAMETERS:
        return f"{error}. Nothing was queued; correct -p, --param or --params."
    return "; ".join(map(_as_typed, error.problems)) or str(error)


def _as_typed(problem: Problem) -> str:
    field, _, name = problem.path.removeprefix("$.").partition(".")
    option = _OPTIONS.get(field.partition("[")[0])
    return str(problem) if option is None else f"{option} {name}".rstrip() + f": {problem.message}"
