"""`ao-codex-exec`: the Codex CLI, driven by its app server."""
