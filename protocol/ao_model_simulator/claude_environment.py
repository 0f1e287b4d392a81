"""The environment in which the real `claude` command line talks to the simulator and to nobody else."""

from pathlib import Path


def claude_environment(url: str, home: Path) -> dict[str, str]:
    """Return the variables for a `claude` process: the simulator at `url`, all its files below `home`.

    Add PATH. As root with `bypassPermissions`, add `IS_SANDBOX=1`.
    """
    return {
        "ANTHROPIC_BASE_URL": url,
        # Not a credential: the command line refuses to start without any.
        "ANTHROPIC_API_KEY": "sk-ant-model-sim",
        "HOME": str(home),
        "CLAUDE_CONFIG_DIR": str(home / ".claude"),
        "CLAUDE_CODE_TMPDIR": str(home / "tmp"),
        # Alone it leaves only the model's API; without it there is telemetry and an update check.
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        # By default a constant error is tried ten times, which takes minutes.
        "CLAUDE_CODE_MAX_RETRIES": "0",
    }
