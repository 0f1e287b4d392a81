"""JMESPath expressions over the answer of a run. They are refused before the run if they cannot be evaluated at all."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from pydantic import JsonValue

_NULL: Final[dict[str, Any]] = {"type": "literal", "children": [], "value": None}


class NoExpression(ValueError):
    """A text is no JMESPath expression; the message says why."""


class NotEvaluated(Exception):
    """An expression has no value for an answer; the message says why."""


@dataclass(frozen=True, slots=True)
class Expression:
    """A JMESPath expression, as text and as its tree."""

    text: str
    tree: Any

    @classmethod
    def parse(cls, text: str) -> "Expression":
        """Return the expression in a text.

        Raises:
            NoExpression: It cannot be parsed, or calls a function that does not exist.
        """
        import jmespath
        from jmespath.functions import Functions

        try:
            tree = jmespath.compile(text).parsed
            unknown = sorted(set(_functions_in(tree)) - set(Functions.FUNCTION_TABLE))
        except (ValueError, RecursionError) as error:
            raise NoExpression(f"{text[:200]!r} is no JMESPath expression: {error}") from error
        if unknown:
            raise NoExpression(f"no function {unknown[0]}; there are {', '.join(sorted(Functions.FUNCTION_TABLE))}")
        return cls(text, tree)

    def evaluate(self, answer: JsonValue) -> Any:  # noqa: ANN401  # any JSON
        """Return the value of the expression for an answer.

        Raises:
            NotEvaluated: A function does not take its argument, or the expression compares or lists what the answer
                lacks.
        """
        from jmespath.visitor import TreeInterpreter

        class Interpreter(TreeInterpreter):
            def visit_comparator(self, node: Any, value: Any) -> Any:  # noqa: ANN401  # as in the library
                for side in node["children"]:
                    # A wrong name, or "x" for 'x', would otherwise be a comparison that is never true.
                    if _NULL not in node["children"] and self.visit(side, value) is None:
                        raise NotEvaluated(f"it compares null: {_named(side)} is not in the answer")
                return super().visit_comparator(node, value)

            def visit_projection(self, node: Any, value: Any) -> Any:  # noqa: ANN401  # as in the library
                found = super().visit_projection(node, value)
                if found == [] and self.visit(node["children"][0], value):
                    raise NotEvaluated(f"no item of a list has {_named(node['children'][1])}")
                return found

        try:
            return Interpreter().visit(self.tree, answer)
        except (ValueError, TypeError, RecursionError) as error:
            raise NotEvaluated(str(error)) from error


def _functions_in(tree: Any) -> Iterator[str]:  # noqa: ANN401  # a tree of the library
    if tree["type"] == "function_expression":
        yield tree["value"]
    for child in tree["children"]:
        yield from _functions_in(child)


def _named(tree: Any) -> str:  # noqa: ANN401  # a tree of the library
    names = [child["value"] for child in [tree, *tree["children"]] if child["type"] == "field"]
    return ".".join(names) or "a part"
