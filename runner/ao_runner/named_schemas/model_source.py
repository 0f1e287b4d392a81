"""What Python source of models may hold: declarations of types, and no way to anything else.

Source that a library made from somebody's schema is read here, never run, before anybody is given it. Allowed is what
is known here; whatever else a library may come to write is refused until somebody has thought about it.
"""

import ast
import re
from collections.abc import Iterable, Iterator, Set
from dataclasses import dataclass, field
from types import EllipsisType, MappingProxyType
from typing import Final, NoReturn

from pydantic_core import SchemaError, SchemaValidator, core_schema

_CALLED: Final = frozenset({"ConfigDict", "Field", "StringConstraints", "conbytes", "confloat", "conint", "constr"})
_SIGNED: Final = frozenset(
    f"{sign}{kind}" for sign in ("Negative", "NonNegative", "NonPositive", "Positive") for kind in ("Float", "Int")
)
_BUILTIN: Final = frozenset({"bool", "bytes", "dict", "float", "int", "list", "object", "set", "str", "tuple"})
_IMPORTED: Final = MappingProxyType(
    {
        "builtins": _BUILTIN,
        "__future__": frozenset({"annotations"}),
        "datetime": frozenset({"date", "datetime", "time", "timedelta"}),
        "enum": frozenset({"Enum", "IntEnum", "StrEnum"}),
        "pydantic": _CALLED | _SIGNED | {"BaseModel", "RootModel"},
        "typing": frozenset({"Annotated", "Any", "Dict", "List", "Literal", "Optional", "Tuple", "Union"}),
        "typing_extensions": frozenset({"TypeAliasType"}),
        "uuid": frozenset({"UUID"}),
    }
)
TAKEN_NAMES: Final = frozenset(name for names in _IMPORTED.values() for name in names)
"""What models may import, and so cannot be called."""

_BOUNDS: Final = frozenset({"ge", "gt", "le", "lt", "max_length", "min_length", "multiple_of", "pattern"})
_UNBOUNDED: Final = frozenset({"UUID", "date", "datetime", "time", "timedelta"})
"""Types whose bounds cannot be numbers or texts, which are all that a schema has."""


@dataclass(eq=False)
class NotOnlyDeclarations(Exception):
    """The source holds something else than declarations, or declarations that do not hold together."""

    line: int
    found: str

    def __str__(self) -> str:
        return f"line {self.line}: {self.found}"


def check_model_source(source: str) -> set[str]:
    """Accept source that only declares models: importing it runs nothing but their declarations, and that works.

    Returns what it declares.

    Raises:
        NotOnlyDeclarations: at the first place where it does more, or where something is missing.
    """
    for number, line in enumerate(source.split("\n"), 1):
        if not line.isprintable():
            raise NotOnlyDeclarations(number, "has characters that cannot be seen")
    try:
        module = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise NotOnlyDeclarations(getattr(error, "lineno", None) or 1, f"is no Python: {error}") from error
    checked = _Module()
    checked.check(module)
    return checked.declared


@dataclass
class _Module:
    """Goes through a module from top to bottom and remembers which names stand for what."""

    imported: dict[str, str] = field(default_factory=dict)
    """What the imported names are called where they come from."""
    declared: set[str] = field(default_factory=set)
    """All classes and aliases of the module, also those further down, which annotations may name."""
    above: set[str] = field(default_factory=set)
    """Those that are already there."""

    def check(self, module: ast.Module) -> None:
        bound: set[str] = set()
        for name, statement in _bound(module.body):
            if name in bound or name.startswith("_"):
                _refuse(statement, f"binds {name}, which is bound already or private")
            bound.add(name)
            if isinstance(statement, ast.ImportFrom):
                self._import(statement)
            else:
                self.declared.add(name)
        for statement in module.body:
            self._check_statement(statement)

    def _import(self, statement: ast.ImportFrom) -> None:
        allowed = _IMPORTED.get(statement.module or "", frozenset()) if statement.level == 0 else frozenset()
        for alias in statement.names:
            if alias.name not in allowed:
                _refuse(statement, f"imports {alias.name} from {statement.module}")
            self.imported[alias.asname or alias.name] = alias.name

    def _check_statement(self, statement: ast.stmt) -> None:
        match statement:
            case ast.ImportFrom() | ast.Expr(value=ast.Constant(value=str())):
                pass
            case ast.ClassDef(name=name, keywords=[], decorator_list=[]):
                self._check_class(statement)
                self.above.add(name)
            case ast.Assign(
                targets=[ast.Name(id=name)],
                value=ast.Call(func=ast.Name(id=called), args=[ast.Constant(value=str()), kind], keywords=[]),
            ) if self.imported.get(called) == "TypeAliasType":
                self._check_type(kind, self.above | {name})
                self.above.add(name)
            case ast.Expr(
                value=ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="model_rebuild"), args=[], keywords=[])
            ) if name in self.above:
                pass
            case _:
                _refuse(statement)

    def _check_class(self, statement: ast.ClassDef) -> None:
        for base in statement.bases:
            self._check_type(base, self.above)
        fields: set[str] = set()
        hiding: set[str] = set()
        types: set[str] = set()
        for member in statement.body:
            for name in self._check_member(member):
                if name in fields:
                    _refuse(member, f"declares {name} a second time")
                fields.add(name)
            if isinstance(member, ast.AnnAssign):
                types |= _names(member.annotation)
                hiding |= _names(member.target) if member.value is not None else set()
        if hidden := hiding & types:
            _refuse(statement, f"has a field that hides the type {min(hidden)}")
        _check_patterns(statement.bases, is_python=False)
        _check_patterns(statement.body, is_python=any(map(_chooses_python, statement.body)))

    def _check_member(self, member: ast.stmt) -> Iterator[str]:
        """Accept a line of a class, and yield the name that it declares, if it declares one."""
        match member:
            case ast.Pass() | ast.Expr(value=ast.Constant(value=str())):
                pass
            case ast.Assign(
                targets=[ast.Name(id="__annotations__")],
                value=ast.Dict(keys=[ast.Constant(value="__pydantic_extra__")], values=[kind]),
            ):
                self._check_type(kind, self.above)
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if not name.startswith("_") and name != "mro":
                self._check_data(value)
                yield name
            case ast.AnnAssign(target=ast.Name(id=name), annotation=kind, value=default) if not name.startswith("_"):
                self._check_type(kind, self.declared)
                if default is not None:
                    self._check_data(default)
                yield name
            case _:
                _refuse(member)

    def _check_type(self, kind: ast.expr, known: Set[str]) -> None:
        """Accept an expression that is a type. A text in it is evaluated when the class is made: it names a class."""
        match kind:
            case ast.Name(id=name) if name in known or name in _BUILTIN or name in self.imported:
                pass
            case ast.Constant(value=str(name)) if name in self.declared:
                pass
            case ast.Constant(value=None) | ast.Constant(value=EllipsisType()):
                pass
            case ast.BinOp(left=ast.Constant(value=str()), op=ast.BitOr()):
                _refuse(kind, "joins a text with a type")
            case ast.BinOp(left=left, op=ast.BitOr(), right=right):
                self._check_type(left, known)
                self._check_type(right, known)
            case ast.Subscript(value=ast.Name(id=name), slice=inside):
                self._check_type(kind.value, known)
                self._check_inside(self.imported.get(name, name), inside, known)
            case ast.Call():
                self._check_data(kind)
            case _:
                _refuse(kind)

    def _check_inside(self, of: str, inside: ast.expr, known: Set[str]) -> None:
        parts = inside.elts if isinstance(inside, ast.Tuple) else [inside]
        if of == "Literal":
            for part in parts:
                self._check_data(part)
        elif of == "Annotated":
            self._check_type(parts[0], known)
            for part in parts[1:]:
                self._check_data(part)
            if _names(parts[0]) & _UNBOUNDED and _keywords(parts[1:]) & _BOUNDS:
                _refuse(inside, "has bounds of another type")
        else:
            for part in parts:
                self._check_type(part, known)

    def _check_data(self, value: ast.expr) -> None:
        """Accept an expression that is a value, also where its parts are members of enumerations."""
        match value:
            case ast.Constant() | ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float())):
                pass
            case ast.List(elts=parts) | ast.Tuple(elts=parts) | ast.Set(elts=parts):
                for part in parts:
                    self._check_data(part)
            case ast.Dict(keys=keys, values=values) if None not in keys:
                for part in [*filter(None, keys), *values]:
                    self._check_data(part)
            case ast.Attribute(value=ast.Name(id=name), attr=member) if name in self.above and member[0] != "_":
                pass
            case ast.Call(func=ast.Name(id=name), args=arguments, keywords=keywords) if self.imported.get(
                name
            ) in _CALLED and all(keyword.arg for keyword in keywords):
                for part in [*arguments, *(keyword.value for keyword in keywords)]:
                    self._check_data(part)
            case _:
                _refuse(value)


def _bound(statements: Iterable[ast.stmt]) -> Iterator[tuple[str, ast.stmt]]:
    for statement in statements:
        match statement:
            case ast.ImportFrom(names=aliases):
                yield from ((alias.asname or alias.name, statement) for alias in aliases)
            case ast.ClassDef(name=name) | ast.Assign(targets=[ast.Name(id=name)]):
                yield name, statement


def _check_patterns(parts: Iterable[ast.AST], *, is_python: bool) -> None:
    for node in (node for part in parts for node in ast.walk(part)):
        match node:
            case ast.keyword(arg="pattern", value=ast.Constant(value=str(pattern)) as value):
                if not can_be_matched(pattern, is_python=is_python):
                    _refuse(value, "has a pattern that pydantic cannot match there")


def _chooses_python(member: ast.stmt) -> bool:
    match member:
        case ast.Assign(targets=[ast.Name(id="model_config")], value=ast.Call(keywords=settings)):
            return any(setting.arg == "regex_engine" for setting in settings)
    return False


def can_be_matched(pattern: str, *, is_python: bool) -> bool:
    """Tell whether pydantic can match a pattern: with Python's engine, or with its own, which is the default."""
    try:
        if is_python:
            re.compile(pattern)
        else:
            SchemaValidator(core_schema.str_schema(pattern=pattern))
    except (re.error, SchemaError, RecursionError, OverflowError):
        return False
    return True


def _names(part: ast.AST) -> set[str]:
    return {node.id for node in ast.walk(part) if isinstance(node, ast.Name)}


def _keywords(parts: Iterable[ast.AST]) -> set[str]:
    return {node.arg or "" for part in parts for node in ast.walk(part) if isinstance(node, ast.keyword)}


def _refuse(node: ast.stmt | ast.expr, found: str | None = None) -> NoReturn:
    raise NotOnlyDeclarations(node.lineno, found or f"has {ast.unparse(node)[:80]!r}, which declares nothing")
