"""`ao serve`: the server as a process, with a worker beside it."""

import asyncio
import ipaddress
import os
import shlex
import socket
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypedDict, Unpack

import click
from click.core import ParameterSource

from ao_protocol.quick_import import begin_imports, end_imports
from ao_runner.cli.options import (
    ORDERED_EXIT_CODE,
    DurationOption,
    complete_profile,
    examples,
    home_option,
    in_utf8,
    model_script_option,
    store_option,
)
from ao_runner.cli.printing import echo
from ao_runner.cli.serve_tokens import token_command
from ao_runner.durations import FORMS
from ao_runner.errors import RunnerError
from ao_runner.home import private_folder
from ao_runner.model_script import read_model_script
from ao_runner.profiles import COORDINATOR_TOKEN
from ao_runner.runs.run_request import on_signals
from ao_runner.store.opening import StorePlace

if TYPE_CHECKING:
    from ao_server.gate import GatePolicy
    from ao_server.header_login import HeaderLogin
    from ao_server.who import Role

DEFAULT_PORT: Final = 8765
GRACEFUL_SECONDS: Final = 5
_DURATION: Final = DurationOption(0.1)


class ServeArguments(TypedDict):
    """What the command line gives this command."""

    host: str
    port: int
    names: tuple[str, ...]
    with_worker: bool
    with_token: bool
    proxies: tuple[ipaddress.IPv4Network | ipaddress.IPv6Network, ...]
    max_connections: int
    head_seconds: float
    body_seconds: float
    login_header: str | None
    login_role: "Role"
    private_webhooks: bool
    notify: tuple[str, ...]
    concurrency: int
    profiles: tuple[str, ...]
    project_dir: Path
    model_script: Path | None
    home: Path
    store: str


@click.group(
    "serve",
    invoke_without_command=True,
    epilog=examples(
        "ao serve",
        "ao serve --model-script answers.yaml",
        "ao serve --store postgresql://ao@db.example/ao --no-worker",
        "ao serve --host 0.0.0.0 --name ao.example",
    )
    + "\n\n\b\nSignals: SIGTERM or Ctrl-C stops the server; its worker finishes its runs, the second one cancels them.",
)
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on. Others demand a token.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=DEFAULT_PORT, show_default=True, help="Port; 0 picks a free one."
)
@click.option(
    "--name", "names", multiple=True, metavar="HOST[:PORT]", help="Further name of the server in URLs. Repeatable."
)
@click.option(
    "--worker/--no-worker", "with_worker", default=True, show_default=True, help="Perform runs on this host, too."
)
@click.option("--token/--no-token", "with_token", default=None, help="Demand a token also on a loopback address.")
@click.option(
    "--proxy", "proxies", type=ipaddress.ip_network, multiple=True, metavar="ADDRESS|NETWORK",
    help="Believe X-Forwarded-For and X-Forwarded-Proto of a proxy with this address. Repeatable.",
)  # fmt: skip
@click.option(
    "--login-header", metavar="NAME",
    help="Header in which a --proxy tells the name of the person whom it has logged in. Demands a token of others.",
)  # fmt: skip
@click.option(
    "--login-role", type=click.Choice(["reader", "client"]), default="reader", show_default=True,
    help="Role of those who are logged in by --login-header.",
)  # fmt: skip
@click.option(
    "--max-connections", type=click.IntRange(1), default=2000, show_default=True,
    help="Maximum number of connections. It is smaller where the limit of open files demands that.",
)  # fmt: skip
@click.option(
    "--head-seconds", type=_DURATION, default="10s", show_default=True, metavar="DURATION",
    help=f"Time for the head of a request: {FORMS}.",
)  # fmt: skip
@click.option(
    "--body-seconds", type=_DURATION, default="30s", show_default=True, metavar="DURATION",
    help="Time for a body, beside a second for each 64 KiB of it; and for which a client may read nothing.",
)  # fmt: skip
@click.option(
    "--private-webhooks", is_flag=True, help="Let webhooks have private addresses. A loopback server always does."
)
@click.option(
    "--notify", default="", metavar="COMMAND", callback=lambda _context, _option, text: _words(text),
    help="Run a command for each request to a person, failed run, paused profile and lost host, as JSON on its stdin.",
)  # fmt: skip
@click.option(
    "--concurrency", type=click.IntRange(1), default=4, show_default=True, help="Maximum number of runs of the worker."
)
@click.option(
    "--profile",
    "profiles",
    multiple=True,
    metavar="NAME|PATH",
    shell_complete=complete_profile,
    help="Profile that the worker serves; the default is all. Repeatable.",
)
@click.option(
    "--project-dir",
    type=click.Path(exists=True, file_okay=False, resolve_path=True, path_type=Path),
    default=".",
    callback=in_utf8,
    help="Folder of runs that name none.  [default: the current one]",
)
@model_script_option
@home_option
@store_option
@click.pass_context
def serve_command(ctx: click.Context, **given: Unpack[ServeArguments]) -> None:
    """Serve pages, an HTTP API and an MCP server over the store, and perform its runs.

    Open the printed address in a browser. On a loopback address everybody on this machine may use it, unless --token
    is given. On others a token is demanded: the first start makes one for each role, worker, client and reader.
    """
    if ctx.invoked_subcommand is None:
        asyncio.run(_serve(given))
    elif any(ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE for name in ctx.params):
        raise click.UsageError("options before `token` are those of the server; write --home behind `token add`")


serve_command.add_command(token_command)


def _words(command: str) -> tuple[str, ...]:
    try:
        return tuple(shlex.split(command))
    except ValueError as error:
        raise click.BadParameter(f"{error} in {command!r}; quote its words as in a shell") from error


class _AddressRefused(RunnerError):
    """The server cannot listen as it was told to."""


async def _serve(given: ServeArguments) -> None:
    begin_imports()
    from ao_runner.connections import BoundedConfig, Bounds, fitting_connections
    from ao_server.application import SignalledServer, build_application
    from ao_server.beside import WorkerBeside
    from ao_server.receivers import ReceiverPolicy
    from ao_server.store_access import StoreAccess
    from ao_server.submission import ServerSettings

    end_imports()
    if given["with_token"] is False and not is_loopback(given["host"]):
        raise click.UsageError("--no-token is for loopback addresses only; omit it, or omit --host")
    if given["with_token"] is False and given["login_header"]:
        raise click.UsageError("--no-token lets in everybody without a login; omit it, or omit --login-header")
    listener = _listener(given["host"], given["port"])
    port = listener.getsockname()[1]
    policy = _gate_policy(given, port)
    tokens = policy.tokens
    script = None if given["model_script"] is None else read_model_script(given["model_script"], os.environ)
    access = StoreAccess(StorePlace(given["home"], given["store"]), f"server-{os.getpid()}", _tell)
    settings = ServerSettings(given["home"], os.environ, str(given["project_dir"]), script)
    receivers = ReceiverPolicy(allows_private=given["private_webhooks"] or is_loopback(given["host"]))
    # Every user of this host can see arguments; only this user can see variables.
    environ = {**os.environ, "AO_STORE": given["store"]} | ({COORDINATOR_TOKEN: tokens["worker"]} if tokens else {})
    beside = WorkerBeside(_worker(given, _own_address(listener)), environ, ORDERED_EXIT_CODE, _tell)
    app, gate = build_application(access, settings, policy, receivers, beside, given["notify"])
    connections = fitting_connections(given["max_connections"])
    bounds = Bounds(connections, given["head_seconds"], given["body_seconds"])
    server = SignalledServer(BoundedConfig(gate, bounds, GRACEFUL_SECONDS, given["proxies"]))
    async with app.router.lifespan_context(app), beside:
        with on_signals(lambda: server.stop(app.state.context.live.close)):
            _say_where(f"http://{_shown(given['host'])}:{port}", given, tokens, connections)
            await server.serve([listener])


def _tell(sentence: str) -> None:
    echo(f"ao: {sentence}", err=True)


def _gate_policy(given: ServeArguments, port: int) -> "GatePolicy":
    from ao_server.gate import GatePolicy, tokens_of
    from ao_server.logins import Logins
    from ao_server.named_tokens import NamedTokens

    header_login = _header_login(given)
    if not given["with_token"] and header_login is None and is_loopback(given["host"]):
        own = f"{_shown(given['host'])}:{port}"
        return GatePolicy(None, frozenset({own, *map(str.lower, given["names"])}))
    tokens = tokens_of(given["home"])
    named = NamedTokens(given["home"])
    named.all()  # a file that cannot be used is told now
    logins = Logins(private_folder(given["home"], "server", "logins"))
    return GatePolicy(tokens, None, logins, named, header_login)


def _header_login(given: ServeArguments) -> "HeaderLogin | None":
    from ao_server.header_login import HEADER, OTHER_USE, HeaderLogin

    name = (given["login_header"] or "").lower()
    if given["login_header"] is None:
        return None
    if not HEADER.fullmatch(name) or name in OTHER_USE:
        raise click.UsageError(f"--login-header {given['login_header']}: expected a header as X-Forwarded-User")
    if not given["proxies"]:
        raise click.UsageError("--login-header needs --proxy ADDRESS: of anybody else the header is refused")
    if any(one.is_loopback for one in given["proxies"]):
        _tell(f"every user and agent of this machine can send {name} and be anybody, since --proxy names a loopback")
    return HeaderLogin(name, given["login_role"], given["proxies"])


def _listener(host: str, port: int) -> socket.socket:
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        listener = socket.create_server((host, port), family=family)
    except (OSError, UnicodeError) as error:  # UnicodeError: DNS cannot hold the name
        advice = "choose another --port, or 0 for a free one"
        reason = getattr(error, "strerror", None) or error
        raise _AddressRefused(f"cannot listen on {host} port {port}: {reason}; {advice}") from error
    # Connections inherit it. asyncio sets it for sockets of its own only, and without it each answer takes 40 ms.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


def _own_address(listener: socket.socket) -> str:
    """Return an address at which this host reaches the server."""
    host, port = listener.getsockname()[:2]
    return f"http://{_shown({'0.0.0.0': '127.0.0.1', '::': '::1'}.get(host, host))}:{port}"  # noqa: S104  # all of them


def is_loopback(host: str) -> bool:
    """Return whether only this machine reaches an address."""
    if host == "localhost":
        return True
    with suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return False


def _shown(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _say_where(address: str, given: ServeArguments, tokens: "Mapping[Role, str] | None", connections: int) -> None:
    if connections < (wanted := given["max_connections"]):
        advice = "raise the limit of open files (ulimit -n) for more"
        echo(f"ao: at most {connections} connections at a time instead of {wanted}; {advice}", err=True)
    echo(f"ao: serving {StorePlace(given['home'], given['store']).name} at {address}", err=True)
    if tokens is not None:
        echo(f"ao: log in with a token of {given['home'] / 'server' / 'tokens.json'} (client or reader)", err=True)
    who = "every user of this machine can" if tokens is None else "whoever has the token of a client or worker can"
    advice = "; --token demands tokens" if tokens is None else ""
    echo(f"ao: {who} run any program as the user of this server, by a profile that is a path{advice}", err=True)
    if not given["with_worker"]:
        echo("ao: no worker is started here; runs wait for one: ao worker", err=True)


def _worker(given: ServeArguments, address: str) -> list[str]:
    """Return the command of the worker beside the server; empty if there is none."""
    return [
        sys.executable, "-P", "-m", "ao_runner", "worker", "--drain-at-eof", "--home", str(given["home"]),
        "--concurrency", str(given["concurrency"]), "--orchestrator", address,
        *(part for profile in given["profiles"] for part in ("--profile", profile)),
    ] if given["with_worker"] else []  # fmt: skip
