"""The base of what the runner raises: somebody asked for what cannot be done, and the sentence says what to do."""


class RunnerError(Exception):
    """The runner refused or could not do something. Its text is one for people and ends with what to do next."""
