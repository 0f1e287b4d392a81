"""`ao model-sim SCRIPT`: run the simulator as a process until a signal or, on request, the end of stdin stops it."""

import json
import os
import signal
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import Final

import click

from ao_model_simulator.endpoints import ENDPOINTS, base_url, environment_for
from ao_model_simulator.script import ScriptError, load_script, script_document
from ao_model_simulator.simulator import ModelSimulator

EXIT_NOT_SATISFIED: Final = 1
EXIT_UNUSABLE: Final = 2
ENDING_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)

HINT: Final = """\
The simulated model listens at {url}

{exports}

Received requests:  curl {url}/_sim/requests
Stop it with Ctrl-C."""
CLAUDE_ONLY: Final = {"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"}
"""Without this variable the claude command line also asks for updates and sends telemetry."""

EXAMPLES: Final = """\b
Examples:
  ao model-sim answers.yaml
  ao model-sim --check answers.yaml
  ao model-sim --port 8089 --record requests.jsonl --strict answers.yaml

\b
Exit codes: 0 all requests were expected, 1 some were not, 2 the script or the port cannot be used."""


@click.command("model-sim", epilog=EXAMPLES)
@click.argument("script", type=click.Path(path_type=Path))
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="Port to listen on; 0 picks a free one.")
@click.option(
    "--record",
    type=click.Path(dir_okay=False, path_type=Path),
    help="File to which each request is appended as a JSON line.",
)
@click.option("--check", "action", flag_value="check", help="Validate the script and exit.")
@click.option(
    "--print", "action", flag_value="print", help="Print the script as JSON, with the text of its files, and exit."
)
@click.option("--strict", is_flag=True, help="Exit with 1 also if answers were not used.")
@click.option("--exit-with-stdin", is_flag=True, help="Stop when stdin ends, and so with the parent process.")
def command(
    script: Path, port: int, record: Path | None, action: str | None, strict: bool, exit_with_stdin: bool
) -> None:
    """Serve local model APIs that answer from SCRIPT, a JSON or YAML file.

    Anthropic Messages, OpenAI Chat Completions and Responses, and Gemini are served at the same time. Prints one JSON
    line {"url": ..., "pid": ..., "base_urls": {...}} once it listens on 127.0.0.1. Exits with 1 if it received a
    request that the script does not expect.
    """
    try:
        simulator = ModelSimulator(load_script(script), port=port, record_file=record)
        if action == "print":
            click.echo(json.dumps(script_document(simulator.script)))
            return
        if action == "check":
            click.echo(f"{script}: a valid script, answers: {len(simulator.script.answers)}")
            return
        # The signals stay blocked: a second one must not prevent the report.
        signal.pthread_sigmask(signal.SIG_BLOCK, ENDING_SIGNALS)
        with simulator:
            _announce(simulator.url)
            if exit_with_stdin:
                threading.Thread(target=_end_with_stdin, daemon=True).start()
            signal.sigwait(ENDING_SIGNALS)
        _report(simulator.find_problems(strict=strict))
    except (ScriptError, OSError) as error:
        _tell(str(error))
        sys.exit(EXIT_UNUSABLE)


def _announce(url: str) -> None:
    if sys.stdout.isatty():
        click.echo(HINT.format(url=url, exports=_exports(url)))
    else:
        base_urls = {kind: base_url(kind, url) for kind in ENDPOINTS}
        click.echo(json.dumps({"url": url, "pid": os.getpid(), "base_urls": base_urls}))


def _exports(url: str) -> str:
    """Return the commands that set the variables in another terminal. OpenAI's two APIs have the same variables."""
    variables = CLAUDE_ONLY | {name: value for kind in ENDPOINTS for name, value in environment_for(kind, url).items()}
    return "\n".join(f"  export {name}={value}" for name, value in variables.items())


def _report(problems: list[str]) -> None:
    if problems:
        for problem in problems:
            _tell(problem)
        sys.exit(EXIT_NOT_SATISFIED)


def _tell(problem: str) -> None:
    """Write a problem to stderr. It may quote requests and scripts, whose text must not steer the terminal."""
    text = "".join(character for character in problem if character.isprintable() or character in "\n\t")
    click.echo(f"model-sim: {text}", err=True)


def _end_with_stdin() -> None:
    with suppress(OSError):  # a stdin that is closed has ended
        while os.read(0, 65536):
            pass
    os.kill(os.getpid(), signal.SIGTERM)
