"""Versions are pairs of numbers, and a run uses one that both sides know."""

import pytest

from ao_protocol.version import (
    CURRENT,
    SUPPORTED,
    MalformedSchemaVersion,
    SchemaVersion,
    UnsupportedSchemaVersion,
    announced_version,
    negotiate,
    supported_texts,
)


def test_a_version_is_written_as_it_was_read() -> None:
    assert str(SchemaVersion.parse("3.10")) == "3.10"


def test_versions_are_compared_as_numbers() -> None:
    assert SchemaVersion.parse("3.10") > SchemaVersion.parse("3.9")


@pytest.mark.parametrize(
    "found", ["", "3", "3.0.0", "v3.0", "03.0", "3.00", "3.-1", "3.0\n", "３.０", 3.0, 3, None, ["3.0"]]
)
@pytest.mark.requirement("AOX-010")
def test_anything_else_than_two_numbers_and_a_dot_is_no_version(found: object) -> None:
    with pytest.raises(MalformedSchemaVersion) as malformed:
        SchemaVersion.parse(found)

    assert str(malformed.value) == f"schema_version: found {found!r}, expected a string such as '3.0'"


@pytest.mark.parametrize(
    ("requested", "used"),
    [("3.0", "3.0"), ("3.1", "3.0"), ("3.999", "3.0"), ("2.2", "2.2"), ("2.1", "2.1"), ("2.0", "2.0"), ("2.7", "2.2")],
)
@pytest.mark.requirement("AOX-012")
def test_any_minor_of_a_known_major_is_used_up_to_what_is_known(requested: str, used: str) -> None:
    assert str(negotiate(SchemaVersion.parse(requested))) == used


@pytest.mark.parametrize("requested", ["0.0", "1.9", "4.0", "30.0"])
@pytest.mark.requirement("AOX-011")
def test_an_unknown_major_is_refused_with_what_is_supported(requested: str) -> None:
    with pytest.raises(UnsupportedSchemaVersion) as unsupported:
        negotiate(SchemaVersion.parse(requested))

    assert str(unsupported.value.requested) == requested
    assert str(unsupported.value) == f"schema_version {requested} is not supported; supported are 3.0, 2.2, 2.1"


def test_supported_versions_stand_newest_first() -> None:
    assert supported_texts() == ["3.0", "2.2", "2.1"]
    assert list(SUPPORTED) == sorted(SUPPORTED, reverse=True)
    assert SUPPORTED[0] == CURRENT


@pytest.mark.parametrize(
    "document",
    [{}, {"schema_version": None}, {"schema_version": 3}, {"schema_version": "4.0"}, {"schema_version": "1.0"}],
    ids=str,
)
@pytest.mark.requirement("AOX-015")
def test_an_invocation_that_will_be_refused_is_answered_in_the_newest_version(document: dict[str, object]) -> None:
    assert announced_version(document) == CURRENT
