"""`ao version`: which release of the package this is, and which versions of the protocol it speaks."""

import json
from importlib.metadata import version

import click

from ao_protocol.version import CURRENT, supported_texts
from ao_runner.cli.options import examples, json_option


@click.command("version", epilog=examples("ao version", "ao version --json | jq -r .protocol_version"))
@json_option("Print version, protocol_version and protocol_versions as JSON.")
def command(as_json: bool) -> None:
    """Print the version of this package and that of the protocol."""
    if as_json:
        versions = {
            "version": version("ao-executor-protocol"),
            "protocol_version": str(CURRENT),
            "protocol_versions": supported_texts(),
        }
        click.echo(json.dumps(versions))
    else:
        click.echo(version_line())


def version_line() -> str:
    """Return what `ao version` and `ao --version` print."""
    return f"ao {version('ao-executor-protocol')} (protocol {CURRENT})"
