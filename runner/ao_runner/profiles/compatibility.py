"""Whether an executor can do what a profile asks of it. Pure."""

from collections.abc import Iterator

from ao_protocol.contracts import InvalidSchema, check_schema, validate
from ao_protocol.documents import Description
from ao_runner.profiles.profile import Profile


def problems_with(profile: Profile, description: Description) -> list[str]:
    """Return what of a profile its executor cannot do, each with its place; nothing where they fit."""
    return list(_problems(profile, description))


def config_schema_problem(description: Description) -> str | None:
    """Return why nothing can be held against a description's `config_schema` (AOX-122), or None where it can."""
    try:
        check_schema(description.config_schema)
    except InvalidSchema as error:
        return f"the config_schema of {description.executor.name} is no valid JSON Schema Draft-7: {error}"
    return None


def _problems(profile: Profile, description: Description) -> Iterator[str]:
    name, unusable = description.executor.name, config_schema_problem(description)
    if unusable is not None:
        yield f"$.config: cannot be checked: {unusable}"
    else:
        problems = validate(profile.config, description.config_schema)
        yield from (f"$.config{problem.path.removeprefix('$')}: {problem.message}" for problem in problems)
    if profile.lifecycle == "persistent" and not description.capabilities.multi_turn:
        yield f"$.lifecycle: persistent needs an executor with the capability multi_turn, which {name} does not have"
