"""Find the `codex` program, and the problems that prevent a run."""

from typing import Final

from ao_executors.codex.config import KEYS
from ao_executors.vendors.agent_cli import AgentCli, credential_problems, home_folder

CODEX: Final = AgentCli(
    "codex",
    wheel="codex_cli_bin",
    inside="bin/codex",
    called="the wheel openai-codex-cli-bin",
    install="pip install 'ao-executor-protocol[codex]'",
)


def find_problems() -> list[str]:
    """Return one sentence for each missing requirement, with the remedy."""
    login = home_folder("CODEX_HOME", ".codex") / "auth.json"
    return CODEX.problems() + credential_problems(KEYS, f"set {KEYS[0]}, or run `codex login` once", login)
