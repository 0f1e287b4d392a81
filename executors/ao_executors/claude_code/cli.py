"""Find the `claude` program, and the problems that prevent a run."""

from importlib.util import find_spec
from typing import Final

from ao_executors.claude_code.config import CLOUDS, CREDENTIALS
from ao_executors.vendors.agent_cli import AgentCli, credential_problems, home_folder

CLAUDE: Final = AgentCli(
    "claude",
    wheel="claude_agent_sdk",
    inside="_bundled/claude",
    called="the SDK's wheel",
    install="pip install 'ao-executor-protocol[claude]'",
)


def find_problems() -> list[str]:
    """Return one sentence for each missing requirement, with the remedy."""
    if find_spec(CLAUDE.wheel) is None:
        problems = [f"the Claude Agent SDK is not installed; {CLAUDE.install}"]
    else:
        problems = CLAUDE.problems()
    login = home_folder("CLAUDE_CONFIG_DIR", ".claude") / ".credentials.json"
    remedy = f"set {CREDENTIALS[0]}, or run `claude` once and log in"
    return problems + credential_problems((*CREDENTIALS, *CLOUDS), remedy, login)
