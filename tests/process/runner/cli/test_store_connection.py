"""The connection to a store's server: TLS and password files, as libpq has them."""

import os
import secrets
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from tests.postgres_server import PostgresServer, require_server
from tests.process.runner.cli.calling import Ao

PASSWORD = "a-password-that-nobody-may-see"
ADDRESS = f"127.{secrets.randbelow(254) + 1}.{secrets.randbelow(254) + 1}.{secrets.randbelow(254) + 1}"
"""An address of this host for one server, which so can have the usual port."""


def make_certificate(folder: Path) -> Path:
    """Make a certificate for the address that it has signed itself, and return its file; its key is beside it."""
    certificate = folder / "server.crt"
    openssl = shutil.which("openssl") or "openssl"
    command = [openssl, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    command += ["-days", "2", "-subj", "/CN=ao", "-addext", f"subjectAltName=IP:{ADDRESS}"]
    command += ["-keyout", str(folder / "server.key"), "-out", str(certificate)]
    subprocess.run(command, check=True, capture_output=True)
    return certificate


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    require_server()
    if shutil.which("openssl") is None:
        pytest.skip(
            "there is no openssl to make a certificate; Debian has it as `openssl`, and installs it with PostgreSQL"
        )
    return make_certificate(tmp_path_factory.mktemp("certificate"))


@pytest.fixture(scope="module")
def database(certificate: Path) -> Iterator[str]:
    """The name of a database whose server admits a role by TLS and password only."""
    with PostgresServer() as server:
        database = server.new_database().rpartition("?")[0].rpartition("/")[2]
        with psycopg.connect(server.url(database), autocommit=True) as connection:
            connection.execute(f"CREATE ROLE worker LOGIN PASSWORD '{PASSWORD}'".encode())
            connection.execute("GRANT CREATE ON SCHEMA public TO worker")
        server.stop()
        owner = server.data.stat()
        for name in ("server.crt", "server.key"):
            shutil.copy(certificate.with_name(name), server.data / name)
            (server.data / name).chmod(0o600)
            os.chown(server.data / name, owner.st_uid, owner.st_gid)
        rules = server.data / "pg_hba.conf"
        kept = [line for line in rules.read_text().splitlines() if not line.startswith("host ")]
        rules.write_text("\n".join([*kept, "hostssl all worker 127.0.0.0/8 scram-sha-256", ""]))
        server.settings |= {"ssl": "on", "listen_addresses": ADDRESS}
        server.start()
        yield database


def password_file(ao: Ao, mode: int = 0o600) -> str:
    path = ao.write("pgpass", f"{ADDRESS}:5432:*:worker:{PASSWORD}\n")
    path.chmod(mode)
    return str(path)


def test_runs_pass_through_a_verified_connection_with_a_password_file(ao: Ao, database: str, certificate: Path) -> None:
    url = f"postgresql://worker@{ADDRESS}/{database}?sslmode=verify-full&sslrootcert={certificate}"
    known = {"AO_STORE": url, "PGPASSFILE": password_file(ao)}

    assert ao("store", "init", **known).exit_code == 0
    assert ao("submit", "agent.yaml", "-p", "hi", "--profile", "echo", **known).exit_code == 0
    assert ao("worker", "--until-idle", **known).exit_code == 0

    assert ao("result", "last", **known).stdout == "hi\n"
    checked = ao("store", "check", **known)
    assert checked.stdout.startswith(f"✓ store: postgresql://{ADDRESS}/{database}: ")


@pytest.mark.parametrize(
    ("parameters", "mode", "reason"),
    [
        ("sslmode=verify-full", 0o600, "root certificate file"),
        ("sslmode=verify-full&sslrootcert={other}", 0o600, "certificate verify failed"),
        ("sslmode=disable", 0o600, "no encryption"),
        ("sslmode=require", 0o644, "no password supplied"),
    ],
    ids=["without its certificate", "with that of another", "without TLS", "with a file that others can read"],
)
def test_what_libpq_refuses_is_told_without_the_password(
    parameters: str, mode: int, reason: str, ao: Ao, database: str, tmp_path: Path
) -> None:
    options = parameters.format(other=make_certificate(tmp_path))
    known = {"PGPASSFILE": password_file(ao, mode), "AO_STORE": f"postgresql://worker@{ADDRESS}/{database}?{options}"}

    refused = ao("runs", **known)

    assert refused.exit_code == 1
    assert reason in refused.stderr
    assert PASSWORD not in refused.stderr
    assert f"cannot use postgresql://{ADDRESS}/{database}: " in refused.stderr
