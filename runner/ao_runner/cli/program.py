"""The program `ao` and its table of commands. A command is imported when it is used, so that `ao --help` is fast."""

import errno
import gc
import importlib
import os
import sys
from typing import Any, Final

import click

from ao_protocol.version import CURRENT, supported_texts
from ao_runner.cli.options import examples, json_option, wants_colour
from ao_runner.cli.printing import echo, plain_text, print_document
from ao_runner.errors import EXIT_INTERRUPTED, RunnerError

COMMANDS: Final = {
    "run": ("ao_runner.cli.run_command:run_command", "Run an agent and show its result."),
    "resume": ("ao_runner.cli.run_command:resume_command", "Continue a session with another prompt."),
    "submit": ("ao_runner.cli.submit:submit_command", "Add a run to the queue of this host."),
    "worker": ("ao_runner.cli.worker_command:worker_command", "Perform runs from the queue or from a coordinator."),
    "serve": ("ao_runner.cli.serve_command:serve_command", "Serve pages and an API, and perform runs."),
    "mcp": ("ao_runner.cli.mcp_command:mcp_command", "Offer the agents of a server to an MCP client."),
    "runs": ("ao_runner.cli.runs:runs_command", "List runs: queued, running and ended."),
    "limits": ("ao_runner.cli.limits:limits_command", "Limit how many runs of an agent or profile run at a time."),
    "top": ("ao_runner.cli.runs:top_command", "Show running and queued runs, live."),
    "wait": ("ao_runner.cli.batch_results:wait_command", "Wait until the runs of a batch have ended."),
    "results": ("ao_runner.cli.batch_results:results_command", "Print the results of the runs of a batch."),
    "cancel": ("ao_runner.cli.runs:cancel_command", "Cancel queued or running runs."),
    "inputs": ("ao_runner.cli.inputs:inputs_command", "List the requests of runs that wait for a person."),
    "answer": ("ao_runner.cli.inputs:answer_command", "Answer a request of a run."),
    "sessions": ("ao_runner.cli.sessions:sessions_command", "List and delete sessions."),
    "events": ("ao_runner.cli.sessions:events_command", "Print the events of a session."),
    "result": ("ao_runner.cli.sessions:result_command", "Print the last result of a session."),
    "executors": ("ao_runner.cli.executors:executors_command", "List executors and profiles."),
    "blueprint": ("ao_runner.cli.schema:blueprint_command", "Validate blueprints."),
    "schema": ("ao_runner.cli.schema:schema_command", "Manage named schemas."),
    "response": ("ao_runner.cli.response:response_command", "Show, convert and merge agent responses."),
    "store": ("ao_runner.cli.store_command:store_command", "Create, check and prune the store; for operators."),
    "doctor": ("ao_runner.cli.executors:doctor_command", "Check the installation on this machine."),
    "new": ("ao_executors.scaffold.new_command:command", "Create a new executor project."),
    "conformance": ("ao_conformance.cli.group:command", "Test whether a program conforms to the protocol."),
    "model-sim": ("ao_model_simulator.cli:command", "Serve a simulated model that plays a script."),
    "version": ("ao_runner.cli.program:version_command", "Print the versions of the package and of the protocol."),
    "completion": ("ao_runner.cli.program:completion_command", "Print the completion script for a shell."),
}
"""By name: the command as `module:attribute`, and its summary."""

DISTRIBUTION: Final = "ao-executor-protocol"
VERSION_LINE: Final = f"ao {{}} (protocol {CURRENT})"
UNWRITABLE: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF, errno.EAGAIN})
"""The errors of a write to an open stream."""

EXAMPLES: Final = """\b
Examples:
  ao run pr-reviewer.yaml -p "Review PR 7"
  ao resume last -p "Only the security issues, please"
  ao doctor"""


class Refusal(click.ClickException):
    """An error of the runner, with its own exit code, because no terminal event provides one."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code  # type: ignore[misc]  # click reads it from the instance


class LazyGroup(click.Group):
    """A group that imports a command when it is used and lists the others from a table."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in the order of the table."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command and return it."""
        if cmd_name not in COMMANDS:
            return None
        module, _, attribute = COMMANDS[cmd_name][0].partition(":")
        command: click.Command = getattr(importlib.import_module(module), attribute)
        gc.freeze()
        gc.enable()
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the table, without importing anything."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, summary) for name, (_, summary) in COMMANDS.items()])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command of a command line. For an unknown name, fail with a suggestion."""
        name = args[0] if args else ""
        if name and not name.startswith("-") and name not in COMMANDS:
            import difflib

            close = difflib.get_close_matches(name, COMMANDS, n=1)
            advice = f"Did you mean {close[0]!r}?" if close else "`ao --help` lists them."
            ctx.fail(f"no such command {name!r}. {advice}")
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:  # noqa: ANN401  # click's own signature
        """Run a command. Errors of the runner become their message, without a traceback."""
        if not wants_colour():
            ctx.color = False
        try:
            return super().invoke(ctx)
        except click.ClickException as error:
            error.message = plain_text(error.message)  # type: ignore[misc]  # it may quote arguments
            raise
        except RunnerError as error:
            raise Refusal(plain_text(str(error)), error.exit_code) from error
        except ValueError as error:
            from ao_protocol.written import NotInteroperable  # slow to import, and rare

            if not isinstance(error, NotInteroperable):
                raise
            raise Refusal(f"{plain_text(str(error))}. Nothing was run", RunnerError.exit_code) from error
        except OSError as error:
            if error.errno == errno.EPIPE:
                raise  # click exits without a message
            raise Refusal(plain_text(_sentence_for(error)), 1) from error
        except KeyboardInterrupt:
            ctx.exit(EXIT_INTERRUPTED)


def _sentence_for(error: OSError) -> str:
    """Return a sentence for an error of the system. If stdout failed, discard the rest of the output."""
    reason = error.strerror or str(error)
    if error.errno in UNWRITABLE and not error.filename:  # errors of other files have a file name
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return f"stdout cannot be written: {reason}. The answer of a run is stored; `ao result last` prints it"
    if error.errno == errno.ENOENT and not error.filename:
        try:
            os.getcwd()  # noqa: PTH109  # the call that fails
        except FileNotFoundError:
            return "the current directory no longer exists; change to another one"
    return f"{error.filename}: {reason}" if error.filename else reason


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    epilog=EXAMPLES,
)
@click.version_option(
    package_name=DISTRIBUTION, message=VERSION_LINE.format("%(version)s"), help="Show the version and exit."
)
def program() -> None:
    """Run AI agents as processes: a blueprint and a prompt in, a validated result out."""


@click.command("version", epilog=examples("ao version", "ao version --json | jq -r .protocol_version"))
@json_option("Print version, protocol_version and protocol_versions as JSON.")
def version_command(as_json: bool) -> None:
    """Print the version of this package and that of the protocol."""
    from importlib.metadata import version

    own = version(DISTRIBUTION)
    if as_json:
        known = {"version": own, "protocol_version": str(CURRENT), "protocol_versions": supported_texts()}
        print_document(known)
    else:
        echo(VERSION_LINE.format(own))


INSTALL = {
    "bash": "echo 'eval \"$(ao completion bash)\"' >> ~/.bashrc",
    "zsh": "echo 'eval \"$(ao completion zsh)\"' >> ~/.zshrc",
    "fish": "ao completion fish > ~/.config/fish/completions/ao.fish",
}


@click.command("completion", epilog=examples(*INSTALL.values()))
@click.argument("shell", type=click.Choice(list(INSTALL)))
@click.pass_context
def completion_command(ctx: click.Context, shell: str) -> None:
    """Print the completion script for SHELL: commands, options, sessions and executors."""
    from click.shell_completion import get_completion_class

    completion = get_completion_class(shell)
    if completion is None:
        raise click.UsageError(f"click does not support completion for {shell}")
    echo(completion(ctx.find_root().command, {}, "ao", "_AO_COMPLETE").source())
