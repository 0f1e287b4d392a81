"""Which variables a profile adds to an executor's environment. Pure."""

from collections.abc import Mapping

from ao_runner.profiles.profile import Profile


def profile_environment(profile: Profile, environ: Mapping[str, str]) -> dict[str, str]:
    """Return what the profile adds: the variables that it passes, its secrets, and those that it sets itself.

    A variable that `environ` does not hold is left out. These are also the variables that blueprints may name.
    """
    passed = {name: environ[name] for name in _taken(profile) if name in environ}
    return passed | profile.environment.set


def missing_variables(profile: Profile, environ: Mapping[str, str]) -> list[str]:
    """Return the names that the profile passes and `environ` does not hold."""
    return [name for name in _taken(profile) if name not in environ]


def _taken(profile: Profile) -> list[str]:
    return list(dict.fromkeys([*profile.environment.passed, *profile.secrets]))
