"""The environment of an executor: a list of what goes in. Whatever is not named stays out (SPEC 11.1, AOX-231)."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from ao_protocol.documents import Description
from ao_protocol.redaction import SHORTEST_SECRET
from ao_runner.errors import RunnerError
from ao_runner.profiles import RUNNERS_OWN

PASSED_ALWAYS: Final = ("PATH", "HOME", "LANG", "TZ", "TMPDIR")
SIMULATED_KEY: Final = "sk-ant-model-sim"
"""No credential: some clients refuse to start without a key."""

_LOCALE_IN_ORDER: Final = ("LC_ALL", "LC_CTYPE", "LANG")


@dataclass(eq=False)
class OwnCredentialGiven(RunnerError):
    """An executor would get a credential of the runner under another name."""

    variable: str
    own: str

    def __str__(self) -> str:
        return (
            f"{self.variable} holds the value of {self.own}, which is the runner's own and which no executor gets; "
            "give it another value, or take it out of the profile"
        )


@dataclass(frozen=True, slots=True)
class Simulation:
    """A model simulator that stands in for the model, and the folder that stands in for the person's home."""

    url: str
    home: Path
    base_urls: Mapping[str, str] = field(default_factory=dict)
    """The address by kind of API, as that API's own clients expect it; the plain one where a kind is not there."""


def bare_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return what every executor gets. LANG says the locale that counts, wherever it was set."""
    passed = {name: environ[name] for name in PASSED_ALWAYS if name in environ}
    locale = next((environ[name] for name in _LOCALE_IN_ORDER if environ.get(name)), None)
    return passed if locale is None else passed | {"LANG": locale}


def executor_environment(
    environ: Mapping[str, str], description: Description, simulation: Simulation | None = None
) -> dict[str, str]:
    """Return the whole environment of a run: the bare one and what the description names.

    With a simulation, nothing of the person's own goes in: neither their key and settings nor their home.
    """
    if simulation is not None:
        return {**bare_environment(environ), **_simulated(description, simulation)}
    named = {*description.secrets, *description.environment} - RUNNERS_OWN
    return {**bare_environment(environ), **{name: environ[name] for name in named if name in environ}}


def refuse_own_credentials(environment: Mapping[str, str], environ: Mapping[str, str]) -> None:
    """Refuse the environment of an executor that holds a credential of the runner, whose environment is `environ`.

    Raises:
        OwnCredentialGiven: naming the variable.
    """
    credentials = {own: value for own in RUNNERS_OWN if (value := environ.get(own, "").strip())}
    for own, credential in credentials.items():
        for name, value in environment.items():
            if value == credential or (len(credential) >= SHORTEST_SECRET and credential in value):
                raise OwnCredentialGiven(name, own)


def secrets_of(environment: Mapping[str, str], names: Iterable[str]) -> dict[str, str]:
    """Return the secrets that stand in an environment, by name."""
    return {name: environment[name] for name in names if name in environment}


def _simulated(description: Description, simulation: Simulation) -> dict[str, str]:
    variables = {"HOME": str(simulation.home)}
    for kind, endpoint in description.model_endpoint.items():
        variables[endpoint.env] = simulation.base_urls.get(kind, simulation.url)
        if endpoint.api_key_env is not None:
            variables[endpoint.api_key_env] = SIMULATED_KEY
    return variables
