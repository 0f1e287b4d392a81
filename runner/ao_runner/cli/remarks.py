"""What is odd about files that people write, told on stderr: fields, keywords and settings that nobody knows."""

import os
from collections.abc import Sequence
from pathlib import Path

import click

from ao_protocol.documents import Description
from ao_protocol.wire import JsonObject
from ao_runner.blueprints.loading import LoadedBlueprint, oddities
from ao_runner.cli.narration import plain_text
from ao_runner.profiles import Profile


def show_oddities(loaded: LoadedBlueprint) -> None:
    """Name the fields of a blueprint, and the keywords of its schemas, that are ignored."""
    show_remarks(str(loaded.path), oddities(loaded))


def show_unknown_settings(profile: Profile, config: JsonObject, config_file: Path | None) -> None:
    """Name the settings that the executor of a profile does not know, of the profile's and of those of a file.

    Without settings nobody is asked. An executor that does not describe itself is the business of the run.
    """
    if not (profile.config or config):
        return
    from ao_runner.discovery.describe import DescribeFailed, describe_executor
    from ao_runner.discovery.locate import ExecutorNotFound, locate_executor
    from ao_runner.runs.environment import bare_environment

    try:
        description = describe_executor(locate_executor(profile.executor), bare_environment(os.environ))
    except (ExecutorNotFound, DescribeFailed, OSError):
        return
    show_remarks(profile.name, profile_remarks(profile, description))
    show_remarks(str(config_file), _remarks(config, description, "$"))


def profile_remarks(profile: Profile, description: Description) -> list[str]:
    """Return what is said of the settings of a profile that its executor does not know."""
    return _remarks(profile.config, description, "$.config")


def show_remarks(subject: str, remarks: Sequence[str]) -> None:
    """Write remarks to stderr, a line each."""
    for remark in remarks:
        click.secho(f"! {plain_text(subject)}: {plain_text(remark)}", fg="yellow", err=True)


def _remarks(config: JsonObject, description: Description, place: str) -> list[str]:
    from ao_runner.cli.setting_places import unknown_settings
    from ao_runner.profiles import config_schema_problem

    if config_schema_problem(description) is not None:
        return []
    return unknown_settings(description.config_schema, config, place)
