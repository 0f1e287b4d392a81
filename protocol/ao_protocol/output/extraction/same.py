"""Tell whether two JSON values are the same, as JSON has it: true is not 1, and no value is too deep."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pydantic import JsonValue


def is_same_json(left: "JsonValue", right: "JsonValue") -> bool:
    """Compare without recursion. 1 and 1.0 are one number in JSON; true and 1 are not one value."""
    pairs = [(left, right)]
    while pairs:
        one, other = pairs.pop()
        if isinstance(one, dict) and isinstance(other, dict):
            if one.keys() != other.keys():
                return False
            pairs.extend((member, other[key]) for key, member in one.items())
        elif isinstance(one, list) and isinstance(other, list):
            if len(one) != len(other):
                return False
            pairs.extend(zip(one, other, strict=True))
        elif isinstance(one, bool) or isinstance(other, bool):
            if one is not other:
                return False
        elif one != other:
            return False
    return True
