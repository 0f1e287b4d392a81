"""Fill in what a blueprint leaves to the runner: `${runner.*}`, `${params.*}`, `${env.*}` and `${runtime.*}`.

Pure. Every text of the blueprint is filled in, once: what a value holds is never looked at again, so no value can bring
a placeholder of its own. Keys are left as they are, and so are the schemas, where `${` may be part of a pattern.
"""

import difflib
import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, reduce
from itertools import islice
from typing import Final, TypeAlias

from pydantic import JsonValue

from ao_protocol.framing import MAX_DEPTH
from ao_protocol.json_path import ROOT, below
from ao_protocol.wire import JsonObject
from ao_runner.errors import RunnerError

SCOPES: Final = ("runner", "params", "env", "runtime")
RUNTIME_NAMES: Final = ("session_id", "run_id", "project_dir")
SCHEMA_FIELDS: Final = ("parameters_schema", "output_schema", "default_output_schema")
TEXT_FIELDS: Final = frozenset({"name", "description", "system_prompt", "command", "mcp_servers"})
"""Where a blueprint wants text at any depth (SPEC 4.2), so a value of another type is written as JSON."""
MAX_FILLED_CHARACTERS: Final = 16 * 1024 * 1024
"""Of all values together. No invocation could carry more."""
MAX_PROBLEMS: Final = 20
STAND_IN: Final = "https://placeholder.invalid"

_TOKEN: Final = re.compile(r"\$\$\{|\$\{(?P<inside>[^{}]*)\}|\$\{")
_INSIDE: Final = re.compile(r"(?P<scope>[A-Za-z_][A-Za-z0-9_-]*)\.(?P<name>[A-Za-z0-9_][A-Za-z0-9_.-]*)")
_ESCAPED: Final = "$${"
_SCOPE: Final = re.compile(r"([A-Za-z_-]{1,20})\.")
_ALIKE: Final = 0.75
"""How much a scope must be like one of ours to be a slip of it: `parms` is, `process` is not."""
_MAX_COMPARED_NAMES: Final = 200
_MAX_LISTED_NAMES: Final = 20
_MAX_SHOWN_CHARACTERS: Final = 60

Keys: TypeAlias = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Scopes:
    """What placeholders stand for, by scope and name.

    `env` holds only variables that the runner's host lets blueprints see; `secrets` names those of them whose values
    may reach nothing but an MCP server's `env` and `headers`. No other scope may hold a secret.
    """

    runner: Mapping[str, str] = field(default_factory=dict)
    params: Mapping[str, JsonValue] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)
    runtime: Mapping[str, str] = field(default_factory=dict)
    secrets: Collection[str] = frozenset()

    def named(self, scope: str) -> Mapping[str, JsonValue]:
        """Return the values of one of `SCOPES`."""
        values: dict[str, Mapping[str, JsonValue]] = {
            "runner": self.runner,
            "params": self.params,
            "env": self.env,
            "runtime": self.runtime,
        }
        return values[scope]


_RUNNER_VALUE: Final = re.compile(r"\$\{runner\.(?P<name>[^}]+)\}")


@dataclass(eq=False)
class UnresolvedPlaceholders(RunnerError):
    """A blueprint holds placeholders that stand for nothing here, or that must not stand where they do.

    `problems` are sentences that begin with a place, `MAX_PROBLEMS` at most. None of them holds a value.
    """

    problems: Sequence[str]

    def __str__(self) -> str:
        listed = [f"  {problem}" for problem in self.problems]
        return "\n".join(["the blueprint's placeholders cannot be filled in:", *listed])


def resolve_placeholders(blueprint: JsonObject, scopes: Scopes) -> JsonObject:
    """Return a copy of a blueprint with every placeholder filled in, in time linear in its size.

    `${` counts only before one of `SCOPES`, or what looks like a slip of it, and a dot: `${HOME}` and `${user.name}`
    are text as any other. A text that is one placeholder and nothing else becomes the value with its own type, outside
    of `TEXT_FIELDS`.
    `$${` before a scope becomes `${`, so a blueprint is to be resolved once: keep the unresolved one.

    Raises:
        UnresolvedPlaceholders: with everything that is wrong, each with its place.
    """
    filling = _Filling(_Lookup(scopes))
    resolved = filling.blueprint(blueprint)
    if filling.problems:
        raise UnresolvedPlaceholders(filling.problems)
    return resolved


def fill_runner_values(document: JsonValue, values: Mapping[str, JsonValue]) -> JsonValue:
    """Return a copy of a blueprint that its coordinator has resolved, with `${runner.NAME}` filled in where known.

    Every other text stays as it is: the coordinator has written values of callers into the blueprint, and a `${env.…}`
    in one of those must not become a variable of this host.
    """
    match document:
        case str():
            return _RUNNER_VALUE.sub(lambda found: str(values.get(found["name"], found[0])), document)
        case dict():
            return {name: fill_runner_values(value, values) for name, value in document.items()}
        case list():
            return [fill_runner_values(value, values) for value in document]
        case _:
            return document


def placeholder_problems(blueprint: JsonObject) -> list[str]:
    """Say which placeholders no run could fill in, whatever its scopes hold."""
    known = {"runtime": RUNTIME_NAMES, "params": _only_parameters(blueprint.get("parameters_schema"))}

    def fill(found: _Found) -> _Value:
        names = known.get(found.scope)
        if names is not None and found.name not in names:
            raise _Refused(_no_such_name(found, names))
        return _Value(STAND_IN, STAND_IN)

    filling = _Filling(fill)
    filling.blueprint(blueprint)
    return filling.problems


def with_stand_ins(blueprint: JsonObject) -> JsonObject:
    """Return a blueprint whose form can be checked before anybody knows the values: a URL stands in for each."""
    return _Filling(lambda _: _Value(STAND_IN, STAND_IN)).blueprint(blueprint)


@dataclass(frozen=True, slots=True)
class _Found:
    keys: Keys
    scope: str
    name: str


@dataclass(frozen=True, slots=True)
class _Value:
    value: JsonValue
    text: str


class _Refused(Exception):
    """Never leaves this module: `_Filling` adds the place."""


class _Filling:
    """Walks through a blueprint, fills in, and collects what is wrong."""

    def __init__(self, fill: Callable[[_Found], _Value]) -> None:
        self.problems: list[str] = []
        self._fill = fill
        self._left = MAX_FILLED_CHARACTERS

    def blueprint(self, blueprint: JsonObject) -> JsonObject:
        return {
            name: value if name in SCHEMA_FIELDS else self._any(value, (name,)) for name, value in blueprint.items()
        }

    def _any(self, value: JsonValue, keys: Keys) -> JsonValue:
        if isinstance(value, str):
            return self._text(value, keys) if "${" in value else value
        if not isinstance(value, dict | list):
            return value
        if len(keys) >= MAX_DEPTH:
            self._complain(keys, f"nested deeper than {MAX_DEPTH} levels")
            return value
        if isinstance(value, dict):
            return {key: self._any(item, (*keys, key)) for key, item in value.items()}
        return [self._any(item, (*keys, index)) for index, item in enumerate(value)]

    def _text(self, text: str, keys: Keys) -> JsonValue:
        pieces: list[str] = []
        end = 0
        for token in _TOKEN.finditer(text):
            pieces.append(text[end : token.start()])
            end = token.end()
            if not _is_meant(text, token.end() if token["inside"] is None else token.start("inside")):
                pieces.append(token[0])
                continue
            if token[0] == _ESCAPED:
                pieces.append("${")
                continue
            found = self._filled(token, text, keys)
            if token.span() == (0, len(text)) and keys[0] not in TEXT_FIELDS:
                return found.value
            pieces.append(found.text)
        return "".join([*pieces, text[end:]])

    def _filled(self, token: re.Match[str], text: str, keys: Keys) -> _Value:
        nothing = _Value(token[0], token[0])
        if self._left < 0 or len(self.problems) >= MAX_PROBLEMS:
            return nothing
        try:
            found = self._fill(_parse(token, text, keys))
        except _Refused as refusal:
            self._complain(keys, str(refusal))
            return nothing
        self._left -= len(found.text)
        if self._left >= 0:
            return found
        self._complain(keys, f"the values come to more than {MAX_FILLED_CHARACTERS} characters")
        return nothing

    def _complain(self, keys: Keys, problem: str) -> None:
        if len(self.problems) < MAX_PROBLEMS:
            self.problems.append(f"{reduce(below, keys, ROOT)}: {problem}")


class _Lookup:
    """Finds values in scopes. Each is written as text once, however often it is asked for."""

    def __init__(self, scopes: Scopes) -> None:
        self._scopes = scopes
        self._written: dict[tuple[str, str], _Value] = {}

    def __call__(self, found: _Found) -> _Value:
        values = self._scopes.named(found.scope)
        if found.name not in values:
            raise _Refused(_no_such_name(found, values))
        if found.scope == "env" and found.name in self._scopes.secrets and not _may_hold_secrets(found.keys):
            raise _Refused(f"{_written(found)} is a secret; it may stand only in the env or headers of an MCP server")
        key = (found.scope, found.name)
        if key not in self._written:
            value = values[found.name]
            text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            self._written[key] = _Value(value, text)
        return self._written[key]


def _is_meant(text: str, begin: int) -> bool:
    """Tell whether what stands behind `${` begins with one of our scopes, or with a slip of one: `${HOME}` does not."""
    scope = _SCOPE.match(text, begin)
    return scope is not None and (scope[1] in SCOPES or _is_slip(scope[1]))


@lru_cache
def _is_slip(scope: str) -> bool:
    return bool(difflib.get_close_matches(scope, SCOPES, n=1, cutoff=_ALIKE))


def _parse(token: re.Match[str], text: str, keys: Keys) -> _Found:
    inside = token["inside"]
    if inside is None:
        raise _Refused(f"{_shown(text[token.start() :])} is not closed by }}; write $${{ for a literal ${{")
    parts = _INSIDE.fullmatch(inside)
    if parts is None:
        scopes = ", ".join(SCOPES)
        expected = f"expected ${{SCOPE.NAME}} with one of the scopes {scopes}; write $${{ for a literal ${{"
        raise _Refused(f"{_shown(token[0])} is not a placeholder; {expected}")
    found = _Found(keys, parts["scope"], parts["name"])
    if found.scope not in SCOPES:
        raise _Refused(f"{_written(found)}: unknown scope; {_there_are(found.scope, SCOPES)}")
    if found.scope == "params" and _names_a_program(keys):
        raise _Refused(f"{_written(found)}: a parameter may not say which program is started")
    return found


def _names_a_program(keys: Keys) -> bool:
    return keys == ("command",) or (len(keys) == 3 and keys[0] == "mcp_servers" and keys[2] == "command")


def _may_hold_secrets(keys: Keys) -> bool:
    return len(keys) == 4 and keys[0] == "mcp_servers" and keys[2] in {"env", "headers"}


def _only_parameters(schema: JsonValue) -> Collection[str] | None:
    """Return the names of all parameters that there can be, or None where a caller may give others."""
    if not isinstance(schema, dict) or schema.get("additionalProperties") is not False or "patternProperties" in schema:
        return None
    properties = schema.get("properties", {})
    return properties.keys() if isinstance(properties, dict) else None


def _no_such_name(found: _Found, names: Iterable[str]) -> str:
    return f"{_written(found)}: {found.scope} has no such name; {_there_are(found.name, names)}"


def _there_are(wanted: str, names: Iterable[str]) -> str:
    compared = [name[:_MAX_SHOWN_CHARACTERS] for name in islice(names, _MAX_COMPARED_NAMES)]
    more = ", …" if len(compared) > _MAX_LISTED_NAMES else ""
    close = difflib.get_close_matches(wanted[:_MAX_SHOWN_CHARACTERS], compared, n=1)
    meant = f". Did you mean {close[0]!r}?" if close else ""
    return f"available: {', '.join(compared[:_MAX_LISTED_NAMES]) or 'none'}{more}{meant}"


def _written(found: _Found) -> str:
    return _shown(f"${{{found.scope}.{found.name}}}")


def _shown(text: str) -> str:
    return repr(text if len(text) <= _MAX_SHOWN_CHARACTERS else f"{text[:_MAX_SHOWN_CHARACTERS]}…")
