"""Load files that people write: blueprints, parameters and configuration, as JSON or YAML."""

import difflib
import math
import os
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import islice
from pathlib import Path
from typing import Final, NamedTuple

from pydantic import BaseModel, ValidationError

from ao_protocol.documents import Blueprint
from ao_protocol.json_path import ROOT, below
from ao_protocol.wire import JsonObject, problems_of
from ao_protocol.written import NotInteroperable, check_interoperable, check_name, decode_text, parse_json, parse_yaml
from ao_runner.blueprints.other_tools import (
    ConvertedAgent,
    NoBlueprint,
    agent_in_markdown,
    agents_in_document,
    document_with_comments,
    what_it_looks_like,
    what_text_looks_like,
)
from ao_runner.blueprints.placeholders import (
    SCHEMA_FIELDS,
    has_placeholders,
    with_stand_ins,
)
from ao_runner.blueprints.server_entries import servers_of_file, with_usual_servers
from ao_runner.errors import RunnerError

MAX_FILE_BYTES: Final = 1024 * 1024
MAX_REMARKS: Final = 50


class UnreadableFile(RunnerError):
    """A file that does not exist, is neither JSON nor YAML, or contains no object."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"{path}: {reason}")


@dataclass(eq=False)
class InvalidBlueprint(RunnerError):
    """A file whose fields are not those of a blueprint."""

    path: Path
    problems: Sequence[str]

    def __str__(self) -> str:
        return "\n".join([f"{self.path} is not a valid blueprint:", *(f"  {problem}" for problem in self.problems)])


class LoadedBlueprint(NamedTuple):
    """A blueprint as it was written, with MCP servers in their usual form, and as it was parsed.

    `not_carried_over` are remarks on the fields of another tool's agent that a blueprint does not have.
    """

    path: Path
    document: JsonObject
    blueprint: Blueprint
    not_carried_over: Sequence[str] = ()


def load_blueprint(path: Path, *, may_wait: bool = True, agent: str | None = None) -> LoadedBlueprint:
    """Read a blueprint, or an agent of Claude Code or OpenCode.

    Args:
        path: The path of the file.
        may_wait: As for `load_object`.
        agent: The agent, if the file may contain several.

    Raises:
        UnreadableFile: The file contains no readable object.
        InvalidBlueprint: Fields are invalid; the error names each with the found and the expected value.
    """
    content = _content_of(path, may_wait=may_wait)
    try:
        text = "" if path.suffix in {".json", ".yaml", ".yml"} else decode_text(content)
        if (found := agent_in_markdown(path.name, text)) is not None:
            return _from_other_tool(path, found)
        document = object_from(path, content, is_json=path.suffix == ".json")
    except NoBlueprint as error:
        raise InvalidBlueprint(path, [str(error)]) from error
    except (NotInteroperable, UnreadableFile) as error:
        text = content.decode(errors="replace")
        commented = document_with_comments(text)
        if commented is None:
            if (kind := what_text_looks_like(path.name, text)) is not None:
                raise InvalidBlueprint(path, [kind]) from error
            raise
        document = commented
    return understand_blueprint(path, document, agent)


def import_blueprint(path: Path, agent: str | None = None) -> LoadedBlueprint:
    """Read a file as `load_blueprint` does, or make a blueprint of a configuration of MCP servers.

    Raises:
        UnreadableFile, InvalidBlueprint: As for `load_blueprint`.
    """
    try:
        return load_blueprint(path, agent=agent)
    except InvalidBlueprint:
        servers = servers_of_file(document_with_comments(path.read_text(errors="replace")) or {})
        if servers is None:
            raise
        return understand_blueprint(path, {"name": path.name.strip(".").partition(".")[0], "mcp_servers": servers})


def as_yaml(document: JsonObject) -> str:
    """Return a document as YAML that `load_object` reads, with long texts as blocks."""
    import yaml

    class Writer(yaml.SafeDumper):
        """Texts that YAML 1.2 reads as numbers are quoted: PyYAML knows those of 1.1."""

    def write_text(writer: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
        style = "|" if "\n" in text else '"' if text[:1] in {*"+-.0123456789"} else None
        return writer.represent_scalar("tag:yaml.org,2002:str", text, style=style)

    Writer.add_representer(str, write_text)
    return yaml.dump(document, Dumper=Writer, sort_keys=False, allow_unicode=True, width=math.inf)


def understand_blueprint(path: Path, document: JsonObject, agent: str | None = None) -> LoadedBlueprint:
    """Parse a blueprint, or an agent of OpenCode, that has been read; `path` is its name in errors.

    Raises:
        InvalidBlueprint: Fields are invalid; the error names each with the found and the expected value.
    """
    try:
        check_interoperable(document)
        if agents := agents_in_document(document):
            return _one_of(agents, agent, path)
        if (kind := what_it_looks_like(document)) is not None:
            raise InvalidBlueprint(path, [kind])
        document, problems = with_usual_servers(document)
        if problems:
            raise InvalidBlueprint(path, problems)
        blueprint = Blueprint.model_validate(with_stand_ins(document) if has_placeholders(document) else document)
        check_name(blueprint.name, place="$.name: ")
    except NotInteroperable as error:
        raise InvalidBlueprint(path, [str(error)]) from error
    except ValidationError as error:
        raise InvalidBlueprint(path, problems_of(error, document)) from error
    return LoadedBlueprint(path, document, blueprint)


def _one_of(agents: Mapping[str, ConvertedAgent], wanted: str | None, path: Path) -> LoadedBlueprint:
    names = [*agents] if wanted is None else [name for name in agents if name == wanted]
    if len(names) != 1:
        choice = f"`ao blueprint import FILE --agent {next(iter(agents))} -o agent.yaml` takes one of them"
        raise InvalidBlueprint(path, [f"it contains the agents {', '.join(agents)}; {choice}"])
    return _from_other_tool(path, agents[names[0]])


def _from_other_tool(path: Path, agent: ConvertedAgent) -> LoadedBlueprint:
    if (prompt := str(agent.blueprint.get("system_prompt"))).startswith("{file:"):
        raise InvalidBlueprint(path, [f"its prompt is {prompt}; write the text of that file in its place"])
    return understand_blueprint(path, agent.blueprint)._replace(not_carried_over=agent.remarks)


def oddities(loaded: LoadedBlueprint) -> list[str]:
    """Return remarks on ignored fields and keywords, with suggestions, at most 50 on fields.

    `metadata`, `$schema` and `x-…` may contain anything.
    """
    return [*loaded.not_carried_over, *oddities_of(loaded.document, loaded.blueprint)]


def oddities_of(
    document: JsonObject, blueprint: Blueprint, place: str = ROOT, max_characters: float = math.inf
) -> list[str]:
    """Return the same remarks for a blueprint at a place of another document, without those on longer schemas."""
    found = islice(_unknown_fields(document, blueprint), MAX_REMARKS)
    unknown = [f"{reduce(below, steps, place)}: unknown field, ignored{meant}" for steps, meant in found]
    if document.keys().isdisjoint(SCHEMA_FIELDS):
        return unknown
    from ao_runner.named_schemas.vetting import remarks_below

    return [*unknown, *remarks_below(document, SCHEMA_FIELDS, place, max_characters)]


def _unknown_fields(document: JsonObject, understood: BaseModel, *above: str) -> Iterator[tuple[Sequence[str], str]]:
    """Yield the steps to each unknown field, and a known name that may be meant."""
    known = type(understood).model_fields
    for name, value in document.items():
        if name in known:
            yield from _unknown_below(value, getattr(understood, name), *above, name)
        elif not is_free(name):
            yield (*above, name), nearest(name, known)


def _unknown_below(value: object, understood: object, *above: str) -> Iterator[tuple[Sequence[str], str]]:
    if isinstance(value, dict) and isinstance(understood, BaseModel):
        yield from _unknown_fields(value, understood, *above)
    elif isinstance(value, dict) and isinstance(understood, dict):
        for name, inner in value.items():
            if isinstance(understood.get(name), BaseModel):
                yield from _unknown_below(inner, understood[name], *above, name)


def is_free(name: str) -> bool:
    """Return whether a field is reserved for other programs, so that it is never unknown."""
    return name in {"metadata", "$schema"} or name.lower().startswith("x-")


def nearest(name: str, known: Iterable[str]) -> str:
    """Return `; did you mean …?` if a known name is similar to a name, else an empty string."""
    by_lower = {one.lower(): one for one in known}
    close = difflib.get_close_matches(name.lower(), by_lower, n=1)
    return f"; did you mean {by_lower[close[0]]!r}?" if close else ""


def load_object(path: Path, *, may_wait: bool = True) -> JsonObject:
    """Read a file that contains one object, in JSON or, if its name does not end in .json, in YAML.

    Args:
        path: The path of the file. It may be a pipe, as a shell creates for `<(…)`.
        may_wait: Whether to wait for the writer of a pipe. An event loop must not, so it reads regular files only.

    Raises:
        UnreadableFile: The file cannot be read; the error has the line and column, if known.
    """
    return object_from(path, _content_of(path, may_wait=may_wait), is_json=path.suffix == ".json")


def _content_of(path: Path, *, may_wait: bool) -> bytes:
    try:
        if may_wait:
            with path.open("rb") as file:
                return file.read(MAX_FILE_BYTES + 1)  # it may be an endless pipe or device
        return _read_regular_file(path)
    except OSError as error:
        raise UnreadableFile(path, error.strerror or str(error)) from error
    except ValueError as error:
        raise UnreadableFile(path, f"no file has such a name: {error}") from error


def _read_regular_file(path: Path) -> bytes:
    _expect_regular_file(path, path.stat().st_mode)  # opening a device may have side effects
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(descriptor, "rb", buffering=0) as file:  # noqa: PTH123  # a descriptor
        _expect_regular_file(path, os.fstat(descriptor).st_mode)  # it may have been replaced since
        content = bytearray()
        while len(content) <= MAX_FILE_BYTES and (chunk := file.read(MAX_FILE_BYTES + 1 - len(content))) != b"":
            if chunk is None:
                raise UnreadableFile(path, "it has no end yet; expected a regular file")  # /proc has such files
            content += chunk
    return bytes(content)


def _expect_regular_file(path: Path, mode: int) -> None:
    if not stat.S_ISREG(mode):
        raise UnreadableFile(path, f"found {_KINDS.get(stat.S_IFMT(mode), 'something else')}, expected a regular file")


_KINDS: Final = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a pipe",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
}


def object_from(path: Path, content: bytes, *, is_json: bool) -> JsonObject:
    """Return the one object in a JSON or YAML text; `path` is its name in errors.

    Raises:
        UnreadableFile: The text is invalid; the error has the line and column, if known.
    """
    if len(content) > MAX_FILE_BYTES:
        raise UnreadableFile(path, f"larger than {MAX_FILE_BYTES} bytes, the most that is read of a file")
    try:
        text = decode_text(content)
        document = parse_json(text) if is_json else parse_yaml(text)
    except NotInteroperable as error:
        raise UnreadableFile(path, str(error)) from error
    if not isinstance(document, dict):
        names = {list: "a list", str: "text", bool: "a boolean", int: "a number", float: "a number"}
        raise UnreadableFile(path, f"expected an object, found {names.get(type(document), 'nothing')}")
    return document
