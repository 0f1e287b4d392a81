"""Judge values by schemas of other people in a process that serves others: at once if that is quick, else apart."""

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from ao_protocol.contracts import Problem
from ao_protocol.contracts.checks import JUDGE, judge_at_once
from ao_protocol.contracts.problems import canonical_json
from ao_protocol.json_path import ROOT
from ao_runner.errors import RunnerError

JUDGING_SECONDS: Final = 10.0
"""Maximum time to judge one value in another process."""

T = TypeVar("T")


@dataclass(eq=False)
class TakesLong(RunnerError):
    """A value that may take long to judge. `with_judge` catches it."""

    value: object
    schema: Mapping[str, Any]
    key: str
    """Equal for the same JSON only: Python considers true and 1 equal."""


def is_quick(value: object, schema: Mapping[str, Any]) -> bool:
    """Return whether a value can be judged in this process without a delay for others.

    Raises:
        InvalidSchema: The schema is not acceptable.
    """
    try:
        characters = len(json.dumps(value))
    except (RecursionError, TypeError, ValueError):
        return True  # it is refused before the schema is asked
    from ao_protocol.contracts.validation import validator_for  # few runs have a schema

    return validator_for(schema).is_quick(characters)


async def with_judge(call: Callable[[], Awaitable[T]]) -> T:
    """Return what a call returns, in which `validate` takes no longer than others can wait.

    If a value may take long, the call ends with `TakesLong`, and is made again once another process has judged the
    value. A value that takes longer than 10 s there is refused.
    """
    known: dict[str, list[Problem]] = {}

    def judge(value: object, schema: Mapping[str, Any]) -> list[Problem]:
        if is_quick(value, schema):
            return judge_at_once(value, schema)
        key = canonical_json([value, schema])
        if key in known:
            return known[key]
        raise TakesLong(value, schema, key)

    token = JUDGE.set(judge)
    try:
        while True:
            try:
                return await call()
            except TakesLong as slow:
                known[slow.key] = await _judged_apart(slow)
    finally:
        JUDGE.reset(token)


async def _judged_apart(slow: TakesLong) -> list[Problem]:
    from ao_runner.processes.calls import CallNotFinished, call_apart  # few values take long

    try:
        return await call_apart(JUDGING_SECONDS, judge_at_once, slow.value, slow.schema)
    except CallNotFinished as error:
        advice = "give a shorter value, or simplify the patterns and lists of the schema"
        return [Problem(ROOT, f"could not be checked against its schema: {error}; {advice}")]
