"""The secrets of an environment. How they are taken out of what is shown is `ao_protocol.redaction`."""

from collections.abc import Iterable, Mapping

from ao_protocol.redaction import MASK, MOST_LINES, NO_SECRETS, SHORTEST_SECRET, RedactedStream, Redactor

__all__ = ["MASK", "MOST_LINES", "NO_SECRETS", "SHORTEST_SECRET", "RedactedStream", "Redactor", "secrets_of"]


def secrets_of(environment: Mapping[str, str], names: Iterable[str]) -> dict[str, str]:
    """Return the secrets that stand in an environment, by name."""
    return {name: environment[name] for name in names if name in environment}
