"""`ao-claude-code-exec`: agents performed by the Claude Code CLI, through the Claude Agent SDK."""
