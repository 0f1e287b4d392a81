"""The file of `--batch`: one request a line, as JSON Lines, or as CSV with a column for each parameter."""

import csv
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC
from functools import cache, partial
from io import StringIO
from pathlib import Path
from typing import Annotated, Any, Final

import click
from pydantic import AfterValidator, AwareDatetime, ConfigDict, DirectoryPath, Field, JsonValue, ValidationError

from ao_protocol.json_path import ROOT
from ao_protocol.wire import JsonObject, WrongField, wrong_fields
from ao_protocol.written import NotInteroperable, decode_text, parse_json
from ao_runner.blueprints.loading import load_blueprint
from ao_runner.cli.new_run import (
    STDIN,
    configuration_from,
    new_run,
    parameters_of_options,
    reception_of,
    show_ignored,
    show_oddities,
    show_remarks_on_schema,
    typed_value,
    types_of,
)
from ao_runner.cli.options import RunArguments
from ao_runner.cli.printing import counted
from ao_runner.discovery import Executor, did_you_mean
from ao_runner.errors import RunnerError
from ao_runner.profiles import Profile, load_profile, with_whole_path
from ao_runner.runs.asked_in_json import AskedInJson
from ao_runner.runs.attaching import problems_of_attachments, with_bytes
from ao_runner.runs.submission import (
    DEFAULT_EXECUTORS,
    AcceptedRun,
    NewRun,
    RefusalReason,
    RunRefused,
    accept,
    new_batch_id,
)
from ao_runner.store.opening import LOCAL
from ao_runner.store.records import timestamp
from ao_runner.store.store import Store

MOST_TOLD: Final = 20
"""Maximum number of problems in an error."""
OF_A_NEW_SESSION: Final = frozenset({"blueprint", "project_dir", "executor_config"})


class BatchLine(AskedInJson):
    """One request. What it does not say, the command line says."""

    model_config = ConfigDict(extra="forbid")

    blueprint: str | None = None
    session_id: str | None = None
    """The session to continue, instead of a blueprint."""
    prompt: str | None = None
    """The parameter `prompt`."""
    parameters: dict[str, Any] = {}
    profile: Annotated[str, AfterValidator(with_whole_path)] | None = None
    project_dir: Annotated[DirectoryPath, AfterValidator(lambda folder: str(folder.absolute()))] | None = None
    executor_config: dict[str, Any] = {}
    requires: tuple[str, ...] = ()
    priority: Annotated[int, Field(ge=-1000, le=1000)] = 0
    not_before: Annotated[AwareDatetime, AfterValidator(lambda time: timestamp(time.astimezone(UTC)))] | None = None
    requeue: bool = Field(False, alias="requeue_at_reset")

    def to_fields(self) -> dict[str, Any]:
        """Return the fields of a `NewRun` that the line says, without those that are added to the command line's."""
        own = ("session_id", "profile", "project_dir", "requires", "priority", "not_before", "requeue")
        fields = super().to_fields() | {name: getattr(self, name) for name in own}
        return {name: value for name, value in fields.items() if name in self.model_fields_set}


@dataclass(eq=False)
class BatchRefused(RunnerError):
    """Lines of a batch are wrong, so that nothing of it is submitted."""

    file: str
    wrong: list[str]
    """`line N: what is wrong`, in order."""
    requests: int = 0

    def __str__(self) -> str:
        more = len(self.wrong) - MOST_TOLD
        told = self.wrong[:MOST_TOLD] + ([f"… and {more} more"] if more > 0 else [])
        file = "stdin" if self.file == STDIN else self.file
        found = f"{counted(len(self.wrong), 'problem')} in {counted(self.requests, 'request')}"
        return "\n  ".join([f"{file}: {found}; nothing was submitted", *told])


@dataclass
class BatchFile:
    """The requests in the file of a command line, whose options are their defaults."""

    given: RunArguments
    store: Store
    terms: JsonObject = field(default_factory=dict)
    """Further fields of every request."""
    executor: Executor | None = None
    """The executor of every run, instead of a profile."""
    _bases: dict[str | None, NewRun] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.profile = cache(self._profile)

    def accept_all(self) -> list[AcceptedRun]:
        """Return the accepted runs of all lines, in their order; they have the id of a new batch.

        Raises:
            BatchRefused: Some lines are wrong.
            RunnerError: The blueprint of the command line, or one of its options, is wrong.
        """
        at = replace(reception_of(self.given, self.store, is_queued=True), batch_id=new_batch_id())
        self._base(None)
        accepted, wrong, requests = [], [], 0
        names: JsonObject = {}
        for number, read in self._lines():
            requests, document = requests + 1, None
            try:
                document = read()
                asked = self._asked(BatchLine.model_validate(document))
                accepted.append(accept(asked, at))
                names |= asked.parameters
            except (RunnerError, NotInteroperable, ValidationError, OSError) as error:
                wrong += [f"line {number}: {problem}" for problem in _told(error, document)]
        if wrong or not accepted:
            raise BatchRefused(str(self.given["batch"]), wrong or ["expected one request a line, found none"], requests)
        for base in self._bases.values():
            if base.blueprint is not None:
                show_ignored(base.blueprint.blueprint, names)
        return accepted

    def _lines(self) -> Iterator[tuple[int, Callable[[], object]]]:
        """Yield the number of each line that is not blank, and a function that returns its document."""
        file = str(self.given["batch"])
        content = sys.stdin.buffer.read() if file == STDIN else Path(file).read_bytes()
        if file.lower().endswith(".csv"):
            yield from self._rows(decode_text(content, f"{file}: "))
            return
        for number, line in enumerate(content.split(b"\n"), 1):
            if line.strip():
                yield number, partial(lambda line: parse_json(decode_text(line)), line)

    def _rows(self, text: str) -> Iterator[tuple[int, Callable[[], object]]]:
        base = self._base(None).blueprint
        if base is None:
            raise click.UsageError("A CSV file has parameters only; name the agent: BLUEPRINT --batch FILE.csv")
        reader = csv.reader(StringIO(text, newline=""), strict=True)
        header = next(reader, [])
        number = reader.line_num + 1
        if not header or not all(header) or len(set(header)) < len(header):
            wrong = f"line 1: expected a different name for each column, found {', '.join(map(repr, header)) or 'none'}"
            raise BatchRefused(str(self.given["batch"]), [wrong])

        def document(cells: list[str]) -> JsonObject:
            if len(cells) != len(header):
                raise RunnerError(f"expected {counted(len(header), 'cell')}, found {len(cells)}")
            filled = [(name, cell) for name, cell in zip(header, cells, strict=True) if cell]
            schema = base.blueprint.parameters_schema
            return {"parameters": {name: _typed_cell(name, cell, schema) for name, cell in filled}}

        try:
            for cells in reader:
                if cells:
                    yield number, partial(document, cells)
                number = reader.line_num + 1
        except csv.Error as error:
            raise BatchRefused(str(self.given["batch"]), [f"line {number}: {error}"]) from error

    def _asked(self, line: BatchLine) -> NewRun:
        if line.session_id is not None and (wrong := sorted(line.model_fields_set & OF_A_NEW_SESSION)):
            raise RunnerError(f"{ROOT}.{wrong[0]}: it is for new sessions; omit it, or omit session_id")
        base, fields = self._base(line.blueprint), line.to_fields()
        if problems := problems_of_attachments(fields.get("attachments", ()), reads_files=True):
            raise RunnerError("; ".join(problems))
        if line.profile is not None:
            self.profile(line.profile)
        for name in ("metadata", "labels", "executor_config"):
            fields[name] = {**getattr(base, name), **getattr(line, name)}
        prompt = {} if line.prompt is None else {"prompt": line.prompt}
        parameters = {**base.parameters, **line.parameters, **prompt}
        if line.session_id is not None:
            fields |= {"blueprint": None, "executor_config": {}}
        elif base.blueprint is None:
            raise RunnerError(f"{ROOT}: expected blueprint or session_id, or BLUEPRINT on the command line; found none")
        asked = replace(base, parameters=parameters, **fields)
        if self.given.get("store", LOCAL) != LOCAL:
            asked = replace(asked, attachments=tuple(map(with_bytes, asked.attachments)))  # for other hosts
        return asked

    def _base(self, blueprint: str | None) -> NewRun:
        """Return what the command line asks of each run of a blueprint, by default of its own one."""
        if blueprint not in self._bases:
            path = self.given["blueprint"] if blueprint is None else Path(blueprint)
            self._bases[blueprint] = self._new_base(path)
        return self._bases[blueprint]

    def _new_base(self, path: Path | None) -> NewRun:
        given, loaded, config, schema = self.given, None, {}, None
        if path is not None:
            loaded = load_blueprint(path)
            show_oddities(loaded)
            schema = loaded.blueprint.parameters_schema
            profile = self.profile(given["profile"] or DEFAULT_EXECUTORS[loaded.blueprint.type])
            config = configuration_from(given, profile)
        parameters = parameters_of_options(schema, given)
        if given["prompt"] is not None:
            parameters["prompt"] = given["prompt"]
        own = {"parameters": parameters, "executor_config": config, "executor": self.executor}
        asked = new_run(given, blueprint=loaded, **own, **self.terms)
        show_remarks_on_schema(asked, given)
        return asked

    def _profile(self, name: str) -> Profile:
        if self.executor is not None:
            return Profile.of_executor(self.executor.name, str(self.executor.path))
        return load_profile(name, self.given["home"], os.environ)


def _typed_cell(name: str, cell: str, schema: JsonObject | None) -> JsonValue:
    types = types_of(name, schema)
    try:
        return typed_value(name, cell.lower() if "boolean" in types and "string" not in types else cell, schema)
    except click.BadParameter as error:
        raise RunnerError(f"column {name}: found {cell[:80]!r}, expected {' or '.join(types)}") from error


def _told(error: Exception, document: object) -> list[str]:
    """Return what is wrong with a line, each as `path: message`."""
    match error:
        case ValidationError():
            return list(map(_field_told, wrong_fields(error, document)))
        case RunRefused(reason=RefusalReason.PARAMETERS, problems=problems):
            return [f"{ROOT}.parameters{str(one).removeprefix(ROOT)}" for one in problems]
        case RunRefused(problems=problems) if problems:
            return list(map(str, problems))
        case _:
            return [str(error).removeprefix("line 1, ")]  # JSON has one line here


def _field_told(wrong: WrongField) -> str:
    if wrong.type != "extra_forbidden":
        return str(wrong)
    names = [one.alias or name for name, one in BatchLine.model_fields.items()]
    return f"{wrong.path}: unknown field.{did_you_mean(wrong.path.removeprefix('$.'), names)}"
