"""Values that are judged in another process."""

from ao_protocol.contracts import Problem, validate
from ao_runner.processes.judging import with_judge

SCHEMA = {"properties": {"n": {"type": "integer"}, "z": {"pattern": "(?=x)x"}}}


async def test_values_that_python_takes_for_equal_are_judged_one_by_one() -> None:
    text = "x" * 100_000

    async def judged() -> list[list[Problem]]:
        return [validate({"z": text, "n": number}, SCHEMA) for number in (1, True)]

    integer, boolean = await with_judge(judged)

    assert integer == []
    assert [problem.path for problem in boolean] == ["$.n"]
