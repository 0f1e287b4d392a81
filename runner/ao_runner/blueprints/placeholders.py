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

_TOKEN: Final = re.compile(
    r"(?P<escape>\$)?\$\{(?=(?P<scope>[A-Za-z_-]{1,20})\.)"
    r"(?:(?P<inside>[^{}]*)\})?"
)
"""What looks like a placeholder, or like an escaped one. One that is not closed is only its first characters."""
_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
_ALIKE: Final = 0.75
"""How much a scope must be like one of ours to be a slip of it: `parms` is, `process` is not."""
_RUNNER_VALUE: Final = re.compile(r"\$\{runner\.(?P<name>[^}]+)\}")
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
        texts = {"runner": self.runner, "env": self.env, "runtime": self.runtime}
        return self.params if scope == "params" else texts[scope]


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

    def value_of(keys: Keys, scope: str, name: str) -> JsonValue:
        values = scopes.named(scope)
        if name not in values:
            raise _no_such_name(scope, name, values)
        may_hold_secrets = len(keys) == 4 and keys[0] == "mcp_servers" and keys[2] in {"env", "headers"}
        if scope == "env" and name in scopes.secrets and not may_hold_secrets:
            shown = _written(scope, name)
            raise _Refused(f"{shown} is a secret; it may stand only in the env or headers of an MCP server")
        return values[name]

    filling = _Filling(value_of)
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
    known: dict[str, Collection[str]] = {"runtime": RUNTIME_NAMES}
    schema = blueprint.get("parameters_schema")
    if isinstance(schema, dict) and schema.get("additionalProperties") is False and "patternProperties" not in schema:
        properties = schema.get("properties", {})
        known |= {"params": properties} if isinstance(properties, dict) else {}

    def stand_in_for(_keys: Keys, scope: str, name: str) -> JsonValue:
        if name not in known.get(scope, (name,)):
            raise _no_such_name(scope, name, known[scope])
        return STAND_IN

    filling = _Filling(stand_in_for)
    filling.blueprint(blueprint)
    return filling.problems


def with_stand_ins(blueprint: JsonObject) -> JsonObject:
    """Return a blueprint whose form can be checked before anybody knows the values: a URL stands in for each."""
    return _Filling(lambda _keys, _scope, _name: STAND_IN).blueprint(blueprint)


class _Refused(Exception):
    """Never leaves this module: `_Filling` adds the place."""


class _Filling:
    """Walks through a blueprint, fills in what `value_of` returns, and collects what is wrong."""

    def __init__(self, value_of: Callable[[Keys, str, str], JsonValue]) -> None:
        self.problems: list[str] = []
        self._value_of = value_of
        self._left = MAX_FILLED_CHARACTERS

    def blueprint(self, blueprint: JsonObject) -> JsonObject:
        return {
            name: value if name in SCHEMA_FIELDS else self._any(value, (name,)) for name, value in blueprint.items()
        }

    def _any(self, value: JsonValue, keys: Keys) -> JsonValue:
        if isinstance(value, str):
            whole = _TOKEN.fullmatch(value)
            if whole is not None and whole["escape"] is None and keys[0] not in TEXT_FIELDS:
                return self._value(whole, keys)[0]
            return _TOKEN.sub(lambda token: self._text(token, keys), value)
        if not isinstance(value, dict | list):
            return value
        if len(keys) >= MAX_DEPTH:
            self._complain(keys, f"nested deeper than {MAX_DEPTH} levels")
            return value
        if isinstance(value, dict):
            return {key: self._any(item, (*keys, key)) for key, item in value.items()}
        return [self._any(item, (*keys, index)) for index, item in enumerate(value)]

    def _text(self, token: re.Match[str], keys: Keys) -> str:
        if token["escape"] is not None:
            return token[0][1:] if _is_meant(token["scope"]) else token[0]
        return self._value(token, keys)[1]

    def _value(self, token: re.Match[str], keys: Keys) -> tuple[JsonValue, str]:
        """Return the value of a placeholder, and its text; itself where it is none of ours or cannot be filled in."""
        if not _is_meant(token["scope"]) or self._left < 0 or len(self.problems) >= MAX_PROBLEMS:
            return token[0], token[0]
        try:
            value = self._value_of(keys, *_parsed(token, keys))
        except _Refused as refusal:
            self._complain(keys, str(refusal))
            return token[0], token[0]
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        self._left -= len(text)
        if self._left < 0:
            self._complain(keys, f"the values come to more than {MAX_FILLED_CHARACTERS} characters")
            return token[0], token[0]
        return value, text

    def _complain(self, keys: Keys, problem: str) -> None:
        if len(self.problems) < MAX_PROBLEMS:
            self.problems.append(f"{reduce(below, keys, ROOT)}: {problem}")


@lru_cache
def _is_meant(scope: str) -> bool:
    """Tell whether a scope is one of ours, or a slip of one."""
    return bool(difflib.get_close_matches(scope, SCOPES, n=1, cutoff=_ALIKE))


def _parsed(token: re.Match[str], keys: Keys) -> tuple[str, str]:
    """Return the scope and the name of a placeholder."""
    scope, inside = token["scope"], token["inside"]
    if inside is None:
        raise _Refused(f"{_shown(token.string[token.start() :])} is not closed by }}; write $${{ for a literal ${{")
    name = inside.removeprefix(f"{scope}.")
    if not _NAME.fullmatch(name):
        expected = f"expected ${{SCOPE.NAME}} with one of the scopes {', '.join(SCOPES)}; write $${{ for a literal ${{"
        raise _Refused(f"{_shown(token[0])} is not a placeholder; {expected}")
    if scope not in SCOPES:
        raise _Refused(f"{_written(scope, name)}: unknown scope; {_there_are(scope, SCOPES)}")
    names_a_program = keys == ("command",) or (len(keys) == 3 and keys[0] == "mcp_servers" and keys[2] == "command")
    if scope == "params" and names_a_program:
        raise _Refused(f"{_written(scope, name)}: a parameter may not say which program is started")
    return scope, name


def _no_such_name(scope: str, name: str, names: Iterable[str]) -> _Refused:
    return _Refused(f"{_written(scope, name)}: {scope} has no such name; {_there_are(name, names)}")


def _there_are(wanted: str, names: Iterable[str]) -> str:
    compared = [name[:_MAX_SHOWN_CHARACTERS] for name in islice(names, _MAX_COMPARED_NAMES)]
    more = ", …" if len(compared) > _MAX_LISTED_NAMES else ""
    close = difflib.get_close_matches(wanted[:_MAX_SHOWN_CHARACTERS], compared, n=1)
    meant = f". Did you mean {close[0]!r}?" if close else ""
    return f"available: {', '.join(compared[:_MAX_LISTED_NAMES]) or 'none'}{more}{meant}"


def _written(scope: str, name: str) -> str:
    return _shown(f"${{{scope}.{name}}}")


def _shown(text: str) -> str:
    return repr(text if len(text) <= _MAX_SHOWN_CHARACTERS else f"{text[:_MAX_SHOWN_CHARACTERS]}…")
