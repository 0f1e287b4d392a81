"""`ao serve token`: tokens with names for the servers of a home."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ao_runner.cli.options import examples, home_option, json_option
from ao_runner.cli.printing import echo, print_document, print_table, show_success

if TYPE_CHECKING:
    from ao_server.who import Role


@click.group(
    "token",
    epilog=examples("ao serve token add anna --role client", "ao serve token list", "ao serve token remove anna"),
)
def token_command() -> None:
    """Add, list and remove tokens with names, by which actions and answers tell who did them.

    They are those of all servers of this home. A running server knows a change at once.
    """


@token_command.command("add", epilog=examples("ao serve token add anna --role client"))
@click.argument("name")
@click.option(
    "--role", type=click.Choice(["reader", "client", "worker"]), required=True,
    help="What it lets do: see everything; change things, too; perform runs.",
)  # fmt: skip
@home_option
def add_token(name: str, role: "Role", home: Path) -> None:
    """Print a new token. It is shown this once: only a digest of it is kept."""
    from ao_server.named_tokens import NamedTokens

    token = NamedTokens(home).add(name, role)
    echo(f"ao: a token of the role {role} for {name}; keep it, since it is not shown again", err=True)
    echo(token)


@token_command.command("list", epilog=examples("ao serve token list"))
@json_option("Print the tokens as a JSON list.")
@home_option
def list_tokens(as_json: bool, home: Path) -> None:
    """List the names and roles of the tokens."""
    from ao_server.named_tokens import NamedTokens

    found = [(name, token.role, token.created_at) for name, token in NamedTokens(home).all().items()]
    if as_json:
        print_document([dict(zip(("name", "role", "created_at"), one, strict=True)) for one in found])
    else:
        hint = "no named tokens yet; add one: ao serve token add NAME --role ROLE"
        print_table(["NAME", "ROLE", "CREATED"], [list(one) for one in found], if_empty=hint)


@token_command.command("remove", epilog=examples("ao serve token remove anna"))
@click.argument("name")
@home_option
def remove_token(name: str, home: Path) -> None:
    """Remove a token. Its requests and its logins are refused from now on."""
    from ao_server.named_tokens import NamedTokens

    NamedTokens(home).remove(name)
    show_success(f"the token {name} is removed, and its logins have ended")
