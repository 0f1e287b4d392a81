"""Fill in the placeholders of a blueprint: `${runner.*}`, `${params.*}`, `${env.*}` and `${runtime.*}`.

Pure. Every text of the blueprint is filled in once: inserted values are not scanned, so a value cannot introduce a
placeholder. Keys stay unchanged, and so do the schemas, where `${` may be part of a pattern. In MCP servers, the
variables of other tools, such as `${TOKEN}`, are placeholders as well.
"""

import difflib
import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, reduce
from itertools import islice
from typing import Final, NamedTuple, TypeAlias

from pydantic import JsonValue

from ao_protocol.framing import MAX_DEPTH
from ao_protocol.json_path import ROOT, below
from ao_protocol.short_text import shorten
from ao_protocol.wire import JsonObject, map_texts
from ao_runner.errors import RunnerError

SCOPES: Final = ("runner", "params", "env", "runtime")
RUNTIME_NAMES: Final = ("session_id", "run_id", "project_dir")
SCHEMA_FIELDS: Final = ("parameters_schema", "output_schema", "default_output_schema")
TEXT_FIELDS: Final = frozenset({"name", "description", "system_prompt", "command", "mcp_servers"})
"""Fields that contain text at any depth (SPEC 4.2); values of other types are inserted as JSON."""
MAX_FILLED_CHARACTERS: Final = 16 * 1024 * 1024
"""Maximum total length of all values. No invocation could carry more."""
MAX_PROBLEMS: Final = 20
STAND_IN: Final = "https://placeholder.invalid"

_TOKEN: Final = re.compile(
    r"(?P<escape>\$)?\$\{(?=(?P<scope>[A-Za-z_-]{1,20})\.)"
    r"(?:(?P<inside>[^{}]*)\})?"
)
"""A plain or escaped placeholder. An unclosed one matches only its first characters."""
_VARIABLE: Final = re.compile(
    r"(?P<escape>\$)?\$\{(?:(?P<inside>\{[^{}]*\}|[^{}]*)\})?"
    r"|\{(?P<opencode>env:[A-Za-z_][A-Za-z0-9_]*|file:[^{}\s]+)\}"
    r"|(?<![^\s=:,'\"])(?P<kept>\$)?\$(?P<bare>[A-Za-z_][A-Za-z0-9_]+)"
)
"""A variable as other tools write it in MCP servers: `${X}`, `${X:-x}`, `${env:X}`, `${input:X}`, `{env:X}`, `$X`."""
_UNDERSTOOD: Final = re.compile(r"(?:env:)?(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?P<default>:-.*)?", re.DOTALL)
_OF_FOLDER: Final = frozenset({"workspaceFolder", "workspacePath", "CLAUDE_PROJECT_DIR"})
"""Variables of other tools that mean `${runtime.project_dir}`."""
_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
_ALIKE: Final = 0.75
"""The similarity at which a scope counts as a typo of a known one: `parms` does, `process` does not."""
_RUNNER_VALUE: Final = re.compile(r"\$\{runner\.(?P<name>[^}]+)\}")
_IN_A_PROFILE: Final = "; a profile names them in `secrets` or `environment`, for a model script in `environment.set`"
_MAX_COMPARED_NAMES: Final = 200
_MAX_LISTED_NAMES: Final = 20
_MAX_SHOWN_CHARACTERS: Final = 60

Keys: TypeAlias = tuple[str | int, ...]


class Scopes(NamedTuple):
    """The values of placeholders, by scope and name.

    `env` contains only variables that the runner's host exposes to blueprints; `secrets` lists the variables whose
    values may only occur in `env` and `headers` of an MCP server. No other scope may contain a secret.
    """

    runner: Mapping[str, str] = {}
    params: Mapping[str, JsonValue] = {}
    env: Mapping[str, str] = {}
    runtime: Mapping[str, str] = {}
    secrets: Collection[str] = frozenset()


@dataclass(eq=False)
class UnresolvedPlaceholders(RunnerError):
    """A blueprint contains placeholders that have no value here, or that are not allowed in their place.

    `problems` are at most `MAX_PROBLEMS` sentences that begin with a place. None of them contains a value.
    """

    problems: Sequence[str]

    def __str__(self) -> str:
        listed = [f"  {problem}" for problem in self.problems]
        return "\n".join(["the blueprint's placeholders cannot be filled in:", *listed])


def resolve_placeholders(blueprint: JsonObject, scopes: Scopes) -> JsonObject:
    """Return a copy of a blueprint with every placeholder filled in, in time linear in its size.

    `${` only counts before one of `SCOPES`, or a likely typo of one, and a dot: `${HOME}` and `${user.name}` are plain
    text. A text that consists of one placeholder becomes the value with its own type, outside of `TEXT_FIELDS`.
    `$${` before a scope becomes `${`, so a blueprint must be resolved only once: keep the unresolved one.

    Raises:
        UnresolvedPlaceholders: Placeholders cannot be filled in; the error lists all problems with their places.
    """
    values = {"runner": scopes.runner, "params": scopes.params, "env": scopes.env, "runtime": scopes.runtime}
    filling = _Filling(values, scopes.secrets)
    resolved = filling.blueprint(blueprint)
    if filling.problems:
        raise UnresolvedPlaceholders(filling.problems)
    return resolved


def fill_runner_values(document: JsonValue, values: Mapping[str, JsonValue]) -> JsonValue:
    """Return a copy of a blueprint that its coordinator has resolved, with every known `${runner.NAME}` filled in.

    All other text stays unchanged: the coordinator has inserted values of callers into the blueprint, and a `${env.…}`
    in one of them must not become a variable of this host.
    """
    return map_texts(
        document, lambda text: _RUNNER_VALUE.sub(lambda found: str(values.get(found["name"], found[0])), text)
    )


def placeholder_problems(blueprint: JsonObject) -> list[str]:
    """Return the problems of placeholders that no run could fill in, whatever the values."""
    values: dict[str, Mapping[str, JsonValue] | None] = dict.fromkeys(SCOPES)
    values["runtime"] = dict.fromkeys(RUNTIME_NAMES, STAND_IN)
    schema = blueprint.get("parameters_schema")
    if isinstance(schema, dict) and schema.get("additionalProperties") is False and "patternProperties" not in schema:
        properties = schema.get("properties", {})
        values["params"] = dict.fromkeys(properties, STAND_IN) if isinstance(properties, dict) else None
    filling = _Filling(values)
    filling.blueprint(blueprint)
    return filling.problems


def has_placeholders(blueprint: JsonObject) -> bool:
    """Return whether a blueprint may contain placeholders; fast, and never wrongly False."""
    servers = json.dumps(blueprint.get("mcp_servers"))
    return "${" in json.dumps(blueprint) or any(mark in servers for mark in ("$", "{env:", "{file:"))


def variables_of_other_tools(blueprint: JsonObject) -> list[str]:
    """Return a remark on each variable in MCP servers that is written as other tools write it."""
    filling = _Filling(dict.fromkeys(SCOPES))
    filling.blueprint(blueprint)
    return filling.translated


def with_stand_ins(blueprint: JsonObject) -> JsonObject:
    """Return a blueprint that can be validated before the values are known: a URL replaces each placeholder."""
    return _Filling(dict.fromkeys(SCOPES)).blueprint(blueprint)


class _Filling:
    """Traverses a blueprint, fills in the values of each scope, and collects problems.

    If the values of a scope are None, each of its names has the value `STAND_IN`.
    """

    def __init__(
        self, values: Mapping[str, Mapping[str, JsonValue] | None], secrets: Collection[str] = frozenset()
    ) -> None:
        self.problems: list[str] = []
        self.translated: list[str] = []
        self._values = values
        self._secrets = secrets
        self._left = MAX_FILLED_CHARACTERS

    def blueprint(self, blueprint: JsonObject) -> JsonObject:
        return {
            name: value if name in SCHEMA_FIELDS else self._any(value, (name,)) for name, value in blueprint.items()
        }

    def _any(self, value: JsonValue, keys: Keys) -> JsonValue:
        if isinstance(value, str):
            if keys[0] == "mcp_servers":
                value = _VARIABLE.sub(lambda found: self._translated(found, keys), value)
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

    def _translated(self, found: re.Match[str], keys: Keys) -> str:
        """Return a variable of another tool as a placeholder; return what is none, or is escaped, as its text."""
        token = _TOKEN.match(found.string, found.start())
        in_words = found["bare"] and keys[2:3] in {("args",), ("command",)} and re.search(r"\s", found.string)
        if in_words or (token is not None and _is_meant(token["scope"])):
            return found[0]
        if found["escape"] or found["kept"]:
            return found[0][1:]
        inside = found["inside"] or found["opencode"] or found["bare"] or ""
        understood = None if found["bare"] else _UNDERSTOOD.fullmatch(inside)
        if understood is None:
            name = re.sub(r"\W", "_", re.split("[:.]", inside)[-1].strip(" {}")).upper() or "NAME"
            literal = "$${ for a literal ${" if not found["bare"] else f"${found[0]} for the text itself"
            expected = f"write ${{env.{name}}} and name {name} in `secrets` or `environment.pass` of the profile"
            self._complain(keys, f"{_shown(found[0])} is not filled in here; {expected}; {literal}")
            return found[0]
        name = understood["name"]
        own = "${runtime.project_dir}" if name in _OF_FOLDER else f"${{env.{name}{understood['default'] or ''}}}"
        if len(self.translated) < MAX_PROBLEMS:
            named = "" if name in _OF_FOLDER else f": the profile names {name} in `secrets` or `environment.pass`"
            self.translated.append(f"{reduce(below, keys, ROOT)}: {_shown(found[0])} is read as {_shown(own)}{named}")
        return own

    def _text(self, token: re.Match[str], keys: Keys) -> str:
        if token["escape"] is not None:
            return token[0][1:] if _is_meant(token["scope"]) else token[0]
        return self._value(token, keys)[1]

    def _value(self, token: re.Match[str], keys: Keys) -> tuple[JsonValue, str]:
        """Return a placeholder's value and text; return it unchanged if it is not ours or cannot be filled in."""
        scope = token["scope"]
        if not _is_meant(scope) or self._left < 0 or len(self.problems) >= MAX_PROBLEMS:
            return token[0], token[0]
        name = (token["inside"] or "").removeprefix(f"{scope}.")
        name, has_default, default = name.partition(":-") if scope == "env" else (name, "", "")
        problem = self._problem(token, name, keys, has_default=bool(has_default))
        if problem is None:
            values = self._values[scope]
            value = STAND_IN if values is None else values.get(name, default)
            text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            self._left -= len(text)
            if self._left >= 0:
                return value, text
            problem = f"the values come to more than {MAX_FILLED_CHARACTERS} characters"
        self._complain(keys, problem)
        return token[0], token[0]

    def _problem(self, token: re.Match[str], name: str, keys: Keys, *, has_default: bool) -> str | None:
        """Return why a placeholder cannot be filled in, or None."""
        scope = token["scope"]
        if token["inside"] is None:
            return f"{_shown(token.string[token.start() :])} is not closed by }}; write $${{ for a literal ${{"
        if not _NAME.fullmatch(name):
            scopes = f"one of the scopes {', '.join(SCOPES)}"
            expected = f"expected ${{SCOPE.NAME}} with {scopes}; write $${{ for a literal ${{"
            return f"{_shown(token[0])} is not a placeholder; {expected}"
        written = _shown(f"${{{scope}.{name}}}")
        if scope not in SCOPES:
            return f"{written}: unknown scope; {_there_are(scope, SCOPES)}"
        of_server = keys[2:] if keys[0] == "mcp_servers" else ()
        if scope == "params" and (keys == ("command",) or of_server == ("command",)):
            return f"{written}: a parameter may not say which program is started"
        values = self._values[scope]
        if values is not None and name not in values and not has_default:
            named = _IN_A_PROFILE if scope == "env" else ""
            return f"{written}: {scope} has no such name; {_there_are(name, values)}{named}"
        may_hold_secrets = len(of_server) == 2 and of_server[0] in {"env", "headers"}
        is_revealed = scope == "env" and name in self._secrets and not may_hold_secrets
        secret = f"{written} is a secret; it may stand only in the env or headers of an MCP server"
        return secret if is_revealed else None

    def _complain(self, keys: Keys, problem: str) -> None:
        if len(self.problems) < MAX_PROBLEMS:
            self.problems.append(f"{reduce(below, keys, ROOT)}: {problem}")


@lru_cache
def _is_meant(scope: str) -> bool:
    """Return whether a scope is a known one or a likely typo of one."""
    return bool(difflib.get_close_matches(scope, SCOPES, n=1, cutoff=_ALIKE))


def _there_are(wanted: str, names: Iterable[str]) -> str:
    compared = [name[:_MAX_SHOWN_CHARACTERS] for name in islice(names, _MAX_COMPARED_NAMES)]
    more = ", …" if len(compared) > _MAX_LISTED_NAMES else ""
    close = difflib.get_close_matches(wanted[:_MAX_SHOWN_CHARACTERS], compared, n=1)
    meant = f". Did you mean {close[0]!r}?" if close else ""
    return f"available: {', '.join(compared[:_MAX_LISTED_NAMES]) or 'none'}{more}{meant}"


def _shown(text: str) -> str:
    return repr(shorten(text, _MAX_SHOWN_CHARACTERS))
