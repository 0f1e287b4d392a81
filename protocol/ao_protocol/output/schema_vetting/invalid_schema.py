"""The one way in which a schema is refused."""

from dataclasses import dataclass

from ao_protocol.output.problems import Problem


@dataclass(eq=False)
class InvalidSchema(ValueError):
    """A schema cannot be a contract: it is no Draft-7 schema, or judging by it might not end.

    `problems` holds every reason, at least one; `path` and `message` are those of the first, the path being a
    place in the schema such as `$.properties.severity.type`.
    """

    problems: tuple[Problem, ...]

    @property
    def path(self) -> str:
        """Return the place of the first problem."""
        return self.problems[0].path

    @property
    def message(self) -> str:
        """Return the sentence of the first problem."""
        return self.problems[0].message

    def __str__(self) -> str:
        return "; ".join(map(str, self.problems))
