"""The scripts of procedural agents, fetched from the server when a run first needs one.

The server announces changed scripts in answers to polls. An announced script is only forgotten here; the next run
that names it fetches it again, so that a lost download delays one run and loses nothing.
"""

import asyncio
import gzip
import hashlib
import io
import json
import os
import re
import shutil
import stat
import tarfile
import tempfile
import zlib
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final

from ao_lifeline.removal import remove_tree
from ao_protocol.wire import JsonObject
from ao_runner.coordinators.http.registration import Enrolment
from ao_runner.home import make_private

MAX_SCRIPT_BYTES: Final = 64 * 1024 * 1024
"""Of all files of a script together, unpacked."""
MAX_FILES: Final = 1000
MAX_TAR_BYTES: Final = MAX_SCRIPT_BYTES + 4 * 1024 * 1024
"""With what tar says of each file."""
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")


class UnusableScript(ValueError):
    """A script that cannot be fetched or run. The text says why."""


@dataclass(frozen=True, slots=True)
class Script:
    """A script on this host."""

    folder: Path
    file: str
    """The program, relative to the folder."""
    parameters_schema: JsonObject | None


class Scripts:
    """Fetches scripts into `folder` and keeps the newest version of each, and the one before it for runs that use it.

    Args:
        folder: Where to keep them; each version has a folder named by its content.
        enrolment: The connection to the server.
    """

    def __init__(self, folder: Path, enrolment: Enrolment) -> None:
        self._folder = folder
        self._enrolment = enrolment
        self._known: dict[str, Script] = {}

    def forget(self, name: str) -> None:
        """Fetch a script anew when it is needed next."""
        self._known.pop(name, None)

    async def find(self, name: str) -> Script:
        """Return a script, fetched where it is not known.

        Raises:
            UnusableScript: the server has none of that name, or what it sends is no script.
            CoordinatorUnavailable: it cannot be fetched now.
        """
        if name not in self._known:
            if _NAME.fullmatch(name) is None:
                raise UnusableScript(f"{name!r} is not the name of a script")
            archive = await self._enrolment.download(f"/scripts/{name}/download")
            if archive is None:
                raise UnusableScript(f"the server has no script {name!r}")
            self._known[name] = await asyncio.to_thread(unpack, archive, self._folder / name, name)
        return self._known[name]


def unpack(archive: bytes, folder: Path, name: str) -> Script:
    """Unpack a gzipped tar of one folder `name`, below a folder named by its content.

    Only regular files and folders are taken; the program of the script is made executable.

    Raises:
        UnusableScript: it is no such archive, too large, or lacks `script.json` or the program that it names.
    """
    version = folder / hashlib.sha256(archive).hexdigest()[:16]
    if not version.is_dir():
        make_private(folder)
        fresh = Path(tempfile.mkdtemp(prefix=".new-", dir=folder))
        try:
            _extract(archive, fresh, name)
            script = _described(fresh, name)
            program = fresh / script.file
            program.chmod(program.stat().st_mode | stat.S_IXUSR)
            fresh.rename(version)
        except (tarfile.TarError, zlib.error, EOFError, OSError) as error:
            if not version.is_dir():  # another worker may have unpacked the same
                raise UnusableScript(f"script {name!r} cannot be unpacked: {error}") from error
        finally:
            remove_tree(str(fresh))
    os.utime(version)
    _remove_old_versions(folder)
    return _described(version, name)


def _extract(archive: bytes, target: Path, name: str) -> None:
    total = 0
    # Unpacked before it is looked into: tarfile reads long names and attributes whole, whatever their size.
    with gzip.open(io.BytesIO(archive)) as packed:
        unpacked = packed.read(MAX_TAR_BYTES + 1)
    if len(unpacked) > MAX_TAR_BYTES:
        raise UnusableScript(f"script {name!r} has more than {MAX_TAR_BYTES} bytes unpacked")
    with tarfile.open(fileobj=io.BytesIO(unpacked), mode="r:") as tar:
        for number, member in enumerate(tar):
            path = PurePosixPath(member.name)
            total += member.size
            if number >= MAX_FILES or total > MAX_SCRIPT_BYTES:
                raise UnusableScript(f"script {name!r} has more than {MAX_FILES} files or {MAX_SCRIPT_BYTES} bytes")
            is_expected = member.isdir() or (member.isfile() and len(path.parts) > 1)
            if not is_expected or path.parts[:1] != (name,) or ".." in path.parts:
                raise UnusableScript(f"script {name!r} contains {member.name!r}, expected files below {name}/")
            place = target.joinpath(*path.parts[1:])
            if member.isdir():
                make_private(place)
                continue
            make_private(place.parent)
            source = tar.extractfile(member)
            assert source is not None, "a regular file"  # noqa: S101
            with source, place.open("xb") as file:
                shutil.copyfileobj(source, file)
            place.chmod(0o700 if member.mode & stat.S_IXUSR else 0o600)


def _described(folder: Path, name: str) -> Script:
    try:
        document = json.loads((folder / "script.json").read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise UnusableScript(f"script {name!r} has no readable script.json: {error}") from error
    file = document.get("script_file") if isinstance(document, dict) else None
    if not isinstance(file, str) or ".." in PurePosixPath(file).parts or not (folder / file).is_file():
        raise UnusableScript(f"script.json of {name!r}: script_file is {file!r}, expected a file of the script")
    schema = document.get("parameters_schema")
    return Script(folder, file, schema if isinstance(schema, dict) else None)


def _remove_old_versions(folder: Path) -> None:
    versions = sorted((path for path in folder.iterdir() if path.is_dir()), key=lambda path: path.stat().st_mtime)
    for path in versions[:-2]:
        remove_tree(str(path))
