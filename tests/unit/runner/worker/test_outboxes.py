"""Where the outboxes for a coordinator are."""

from pathlib import Path

import pytest

from ao_runner.outbox.owning import places_of

HOME = Path("/home/ao")


@pytest.mark.parametrize(
    "spelled",
    ["http://h:1", "http://h:1/", "http://h:1//", "HTTP://H:1", "http://user:secret@h:1", "http://other@h:1/"],
)
def test_however_the_url_of_a_coordinator_is_spelled_its_outboxes_are_in_one_place(spelled: str) -> None:
    assert places_of(HOME, spelled) == HOME / "outboxes" / "7fda4b76ae8c2c45"


@pytest.mark.parametrize(
    ("spelled", "usual"),
    [
        ("http://h:80", "http://h"),
        ("https://h:443/ao", "https://h/ao"),
        ("http://h:", "http://h"),
        ("http://[::1]:80/", "http://[::1]"),
    ],
)
def test_the_usual_port_need_not_be_named(spelled: str, usual: str) -> None:
    assert places_of(HOME, spelled) == places_of(HOME, usual)


def test_each_coordinator_has_a_place_of_its_own() -> None:
    urls = [
        "http://h",
        "https://h",
        "http://h:1",
        "http://h:443",
        "http://h/a",
        "http://h/A",
        "http://g",
        "http://[::1]:1",
    ]
    assert len({places_of(HOME, url) for url in urls}) == len(urls)


def test_a_coordinator_without_a_url_gives_the_place_its_name() -> None:
    assert places_of(HOME, "local") == HOME / "outboxes" / "local"


@pytest.mark.parametrize("name", ["http://[", "http://h:99999", "no-url", "http://"])
def test_what_is_no_url_has_a_place_until_it_is_refused(name: str) -> None:
    assert places_of(HOME, name).parent == HOME / "outboxes"
