"""`ao completion`: the script that makes a shell complete `ao`."""

import click
from click.shell_completion import get_completion_class

from ao_runner.cli.options import examples

INSTALL = {
    "bash": "echo 'eval \"$(ao completion bash)\"' >> ~/.bashrc",
    "zsh": "echo 'eval \"$(ao completion zsh)\"' >> ~/.zshrc",
    "fish": "ao completion fish > ~/.config/fish/completions/ao.fish",
}


@click.command("completion", epilog=examples(*INSTALL.values()))
@click.argument("shell", type=click.Choice(list(INSTALL)))
@click.pass_context
def command(ctx: click.Context, shell: str) -> None:
    """Print the completion script for SHELL: commands, options, sessions and executors."""
    completion = get_completion_class(shell)
    if completion is None:
        raise click.UsageError(f"click does not support completion for {shell}")
    click.echo(completion(ctx.find_root().command, {}, "ao", "_AO_COMPLETE").source())
