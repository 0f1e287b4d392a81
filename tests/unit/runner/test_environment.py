"""What goes into an executor's environment, from literals."""

from pathlib import Path

import pytest

from ao_protocol.documents import Description
from ao_runner.runs.run_request import (
    OwnCredentialGiven,
    Simulation,
    bare_environment,
    executor_environment,
    refuse_own_credentials,
)

DESCRIPTION = Description.model_validate(
    {
        "executor": {"name": "x", "version": "1"},
        "secrets": ["X_KEY"],
        "environment": ["X_URL", "X_REGION"],
        "model_endpoint": {"x": {"env": "X_URL", "api_key_env": "X_KEY"}},
    }
)
ENVIRON = {
    "PATH": "/bin",
    "HOME": "/home/me",
    "TZ": "UTC",
    "TMPDIR": "/my/tmp",
    "X_KEY": "secret",
    "X_URL": "http://x",
    "AWS_SECRET": "other",
    "PYTHONPATH": "/evil",
}


def test_the_bare_environment_is_a_list() -> None:
    assert bare_environment(ENVIRON) == {"PATH": "/bin", "HOME": "/home/me", "TZ": "UTC", "TMPDIR": "/my/tmp"}


@pytest.mark.parametrize(
    ("environ", "lang"),
    [
        ({"LANG": "de_DE.UTF-8"}, "de_DE.UTF-8"),
        ({"LANG": "de_DE.UTF-8", "LC_ALL": "C.UTF-8"}, "C.UTF-8"),
        ({"LC_CTYPE": "C.UTF-8"}, "C.UTF-8"),
        ({"LANG": "de_DE.UTF-8", "LC_ALL": ""}, "de_DE.UTF-8"),
    ],
    ids=["LANG alone", "LC_ALL outranks it", "LC_CTYPE alone", "an empty LC_ALL says nothing"],
)
def test_lang_is_the_locale_that_counts(environ: dict[str, str], lang: str) -> None:
    assert bare_environment(environ) == {"LANG": lang}


def test_what_the_description_names_is_handed_through() -> None:
    given = executor_environment(ENVIRON, DESCRIPTION)

    assert given == bare_environment(ENVIRON) | {"X_KEY": "secret", "X_URL": "http://x"}


@pytest.mark.parametrize("part", ["secrets", "environment"])
def test_a_description_does_not_get_at_the_token_of_the_worker(part: str) -> None:
    description = DESCRIPTION.model_copy(update={part: ["AO_COORDINATOR_TOKEN"]})

    assert "AO_COORDINATOR_TOKEN" not in executor_environment({"AO_COORDINATOR_TOKEN": "token"}, description)


@pytest.mark.parametrize("value", ["s3cret-token", "Bearer s3cret-token"])
def test_the_token_of_the_worker_under_another_name_is_refused(value: str) -> None:
    environ = {"AO_COORDINATOR_TOKEN": "s3cret-token\n"}

    with pytest.raises(OwnCredentialGiven, match="OTHER holds the value of AO_COORDINATOR_TOKEN"):
        refuse_own_credentials({"PATH": "/bin", "OTHER": value}, environ)


def test_a_simulation_replaces_home_address_and_key() -> None:
    given = executor_environment(ENVIRON, DESCRIPTION, Simulation("http://127.0.0.1:9", Path("/stand-in")))

    assert given == bare_environment(ENVIRON) | {
        "HOME": "/stand-in",
        "X_URL": "http://127.0.0.1:9",
        "X_KEY": "sk-ant-model-sim",
    }
