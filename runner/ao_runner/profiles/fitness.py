"""Whether an executor can do what a profile asks of it. Pure."""

from collections.abc import Iterator

from ao_protocol.describe import Description
from ao_protocol.output import InvalidSchema, check_schema, validate
from ao_runner.profiles.profile import Profile


def problems_with(profile: Profile, description: Description) -> list[str]:
    """Return what of a profile its executor cannot do, each with its place; nothing where they fit."""
    return list(_problems(profile, description))


def _problems(profile: Profile, description: Description) -> Iterator[str]:
    name = description.executor.name
    try:
        check_schema(description.config_schema)
        problems = validate(profile.config, description.config_schema)
    except InvalidSchema as error:
        yield f"$.config: cannot be checked, since the config_schema of {name} is not valid: {error}"
    else:
        yield from (f"$.config{problem.path.removeprefix('$')}: {problem.message}" for problem in problems)
    if profile.lifecycle == "persistent" and not description.capabilities.multi_turn:
        yield f"$.lifecycle: persistent needs an executor with the capability multi_turn, which {name} does not have"
