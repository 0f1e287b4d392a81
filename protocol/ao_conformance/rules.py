"""The requirements, by id, read once."""

from collections.abc import Mapping
from functools import cache

from ao_protocol.published import Requirement, load_requirements


@cache
def requirements_by_id() -> Mapping[str, Requirement]:
    """Return every requirement of the protocol by its id, in the order of the specification."""
    return {requirement.id: requirement for requirement in load_requirements()}
