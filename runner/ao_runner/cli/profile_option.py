"""`--profile`, and what can be typed where a profile is meant."""

import os
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

from ao_runner.cli.options import Command
from ao_runner.home import default_home


def profile_option(command: Command) -> Command:
    """Add `--profile`: for `load_profile`, or None."""
    return click.option(
        "--profile",
        metavar="NAME|PATH",
        shell_complete=complete_profile,
        help="Profile to use; `ao executors` lists them.",
    )(command)


def complete_profile(ctx: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the profiles whose names begin so. Those that are broken are told by their help."""
    from ao_runner.errors import RunnerError
    from ao_runner.profiles import list_profiles

    try:
        found = list_profiles(_home_of(ctx.params), os.environ)
    except RunnerError:
        return []
    return [
        CompletionItem(item.name, help="broken" if item.profile is None else item.profile.executor)
        for item in found
        if item.name.startswith(incomplete)
    ]


def _home_of(parameters: dict[str, Any]) -> Path:
    return Path(parameters.get("home") or os.environ.get("AO_HOME") or default_home())
