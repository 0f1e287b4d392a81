"""What the executor says of the body of an error that a service answered."""

import pytest

from ao_executors.claude_code.cli_files import words_of


@pytest.mark.parametrize(
    "body", ["[" * 200_000, "[" * 900 + "]" * 900, "9" * 5000], ids=["200,000 levels", "900 levels", "5,000 digits"]
)
def test_a_body_that_no_parser_reads_is_told_as_it_is(body: str) -> None:
    assert words_of(body).startswith(body[:50])
