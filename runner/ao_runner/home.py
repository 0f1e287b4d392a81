"""The folder where sessions, runs and profiles of a user are kept."""

from pathlib import Path

from ao_runner.errors import RunnerError


class NoUserFolder(RunnerError):
    """The user's data folder cannot be told, as in a container whose user has no name."""

    def __str__(self) -> str:
        return "the user's data folder cannot be determined: HOME is not set; use --home or AO_HOME"


def default_home() -> Path:
    """Return the folder that is used when nobody chooses one.

    Raises:
        NoUserFolder: this user has no folder.
    """
    from platformdirs import user_data_dir

    try:
        return Path(user_data_dir("ao"))
    except RuntimeError as error:
        raise NoUserFolder from error
