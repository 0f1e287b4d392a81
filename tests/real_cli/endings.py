"""Print how each agent ends a run, as a table in Markdown: `python -m tests.real_cli.endings [AGENT]…`.

Each cell is a run of `ao run` with the real program, and a simulated model that answers with a provider's own words.
"""

import json
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

TIMEOUT_SECONDS: Final = 150
_JOBS: Final = 2
API_OF: Final = {
    "claude-code": "anthropic",
    "codex": "openai",
    "claude-acp": "anthropic",
    "gemini": "gemini",
    "opencode": "anthropic",
    "qwen": "openai",
}
_MODELS: Final = {"anthropic": "claude-opus-4-6", "openai": "gpt-5.1", "gemini": "gemini-2.5-pro"}


def _fails(status: int, message: str, kind: str | None = None) -> dict[str, Any]:
    error = {"message": message} if kind is None else {"message": message, "type": kind}
    return {"status": status, "error": error, "repeat": "forever"}


def _everywhere(**answer: object) -> dict[str, dict[str, Any]]:
    return {api: {**answer, "repeat": "forever"} for api in _MODELS}


_OPENAI_QUOTA: Final = "You exceeded your current quota, please check your plan and billing details."
_GEMINI_QUOTA: Final = (
    f"{_OPENAI_QUOTA} * Quota exceeded for metric: generate_content_free_tier_requests, limit: 250 "
    "(GenerateRequestsPerDayPerProjectPerModel-FreeTier)"
)
ENDINGS: Final[Mapping[str, Mapping[str, dict[str, Any]]]] = {
    "cut off": _everywhere(text="It begins", stop_reason="max_tokens"),
    "refused": _everywhere(text="I cannot help.", stop_reason="refusal"),
    "context full": {
        "anthropic": _fails(400, "prompt is too long: 208310 tokens > 200000 maximum"),
        "openai": _fails(400, "Your input exceeds the context window of this model.", "context_length_exceeded"),
        "gemini": _fails(
            400, "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576)."
        ),
    },
    "wrong key": {
        "anthropic": _fails(401, "invalid x-api-key"),
        "openai": _fails(401, "Incorrect API key provided: sk-wrong."),
        "gemini": _fails(400, "API key not valid. Please pass a valid API key."),
    },
    "wrong model": _everywhere(status=404),
    "rate limit": _everywhere(status=429),
    "rate limit, `retry-after: 120`": _everywhere(status=429, headers={"retry-after": "120"}),
    "quota": {
        "anthropic": _fails(400, "Your credit balance is too low to access the Anthropic API."),
        "openai": _fails(429, _OPENAI_QUOTA, "insufficient_quota"),
        "gemini": _fails(429, _GEMINI_QUOTA),
    },
    "overloaded": {api: {"status": 529 if api == "anthropic" else 503, "repeat": "forever"} for api in _MODELS},
}


@dataclass(frozen=True)
class Ending:
    """The end of one run."""

    events: list[dict[str, Any]]
    stderr: str

    @property
    def cell(self) -> str:
        """What the table shows: the type or `result`, when a retry makes sense, and the seconds since `run_started`."""
        if not self.events:
            return f"no event: {self.stderr[-200:]}"
        last = self.events[-1]
        error = last.get("error")
        shown = f"`{error['type']}`" if error else f"`result` ({last.get('stop_reason')})"
        if error and error["retryable"]:
            shown += ", retryable"
            shown += f" after {error['retry_after_seconds']:g} s" if "retry_after_seconds" in error else ""
        first, end = (datetime.fromisoformat(one["timestamp"]) for one in (self.events[0], last))
        logs = [one for one in self.events if one["event_type"] == "log" and one["level"] in {"warning", "error"}]
        retries = sum(one["event_type"] == "retry_scheduled" for one in self.events)
        notes = [
            f"{(end - first).total_seconds():.0f} s",
            *([f"{retries} retries told"] if retries else []),
            *(["log"] if logs else []),
        ]
        return f"{shown}; {', '.join(notes)}"


def end_of_run(agent: str, answer: Mapping[str, Any], *arguments: str) -> Ending:
    """Run an agent whose model gives one answer, and return how the run ends."""
    with tempfile.TemporaryDirectory(prefix="ao-endings-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        (folder / "project").mkdir()
        for file, document in {
            "agent": {"name": "a", "system_prompt": "You answer."},
            "script": {"answers": [answer]},
        }.items():
            (folder / f"{file}.json").write_text(json.dumps(document), encoding="utf-8")
        ao = str(Path(sys.executable).with_name("ao"))
        argv = [ao, "run", "agent.json", "-p", "Hi", "--events", "--project-dir", "project", "--executor", agent]
        argv += ["--model", _MODELS[API_OF[agent]], "--model-script", "script.json", "--timeout", str(TIMEOUT_SECONDS)]
        ended = subprocess.run(
            [*argv, *arguments],
            cwd=folder,
            env={**os.environ, "AO_HOME": str(folder / "home")},
            capture_output=True,
            timeout=TIMEOUT_SECONDS + 60,
            check=False,
        )
    events = [json.loads(line) for line in ended.stdout.splitlines()]
    return Ending(events, ended.stderr.decode())


def main(agents: list[str]) -> None:
    """Print the table for some agents, or for all."""
    agents = agents or list(API_OF)
    cells = [(ending, agent) for ending in ENDINGS for agent in agents]
    with ThreadPoolExecutor(_JOBS) as pool:
        ended = dict(
            zip(
                cells, pool.map(lambda cell: end_of_run(cell[1], ENDINGS[cell[0]][API_OF[cell[1]]]), cells), strict=True
            )
        )
    machine = f"{platform.platform()}, {os.cpu_count()} cores, load {os.getloadavg()[2]:.0f}"
    print(f"`python -m tests.real_cli.endings`, {datetime.now(UTC):%Y-%m-%d}, {machine}\n")
    print(f"| ending | {' | '.join(agents)} |\n|{' --- |' * (len(agents) + 1)}")
    for ending in ENDINGS:
        print(f"| {ending} | {' | '.join(ended[ending, agent].cell for agent in agents)} |")
    for (ending, agent), one in ended.items():
        if one.events and (error := one.events[-1].get("error")):
            print(f"{agent}, {ending}: {error['message'][:300]}", file=sys.stderr)


if __name__ == "__main__":
    main(sys.argv[1:])
