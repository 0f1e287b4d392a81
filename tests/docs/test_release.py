"""`.ci/release` builds a release that can be trusted, or says what is missing."""

import hashlib
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from ao_executors import VERSION
from tests.docs.test_commands import GIT, make_clone
from tests.repositories import ROOT, skip_outside_a_clone

SECTION = f"## {VERSION} - 2026-11-27\n\n- Added: everything.\n\n"


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """Return a clone whose publisher has answered, and whose changelog has the version."""
    skip_outside_a_clone()
    made = tmp_path / "clone"
    made.mkdir()
    make_clone(made)
    (made / ".venv").symlink_to(sys.prefix)
    (made / ".git/info/exclude").write_text(".venv\n")
    settings, changelog = made / ".ci/release.toml", made / "CHANGELOG.md"
    settings.write_text(settings.read_text().replace('""', '"https://publisher.example"'))
    changelog.write_text(f"# Changelog\n\n## Unreleased\n\n{SECTION}## 0.0.1\n\n- Older.\n")
    commit(made)
    return made


def commit(clone: Path) -> None:
    who = ["-c", "user.name=a publisher", "-c", "user.email=publisher@example.org"]
    subprocess.run([GIT, *who, "commit", "-qam", "Release"], cwd=clone, check=True)


def release(clone: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [".ci/release", sys.executable],
        cwd=clone,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_package_has_one_version_and_the_changelog_has_its_notes() -> None:
    package = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert package == VERSION
    _, found, rest = (ROOT / "CHANGELOG.md").read_text().partition(f"\n## {VERSION} - ")
    assert found
    assert rest.partition("\n## ")[0].count("\n") <= 110


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("name", "before", "after", "told"),
    [
        (".ci/release.toml", 'repository = "https://publisher.example"', 'repository = ""', "repository is empty"),
        ("CHANGELOG.md", f"## {VERSION}", "## 0.0.9", f"has no section '## {VERSION}'"),
        ("CHANGELOG.md", "- Added: everything.\n", "- Added: a thing.\n" * 120, "longer than two pages"),
    ],
    ids=["publisher", "no notes", "long notes"],
)
def test_what_is_missing_is_named_before_anything_is_built(
    name: str, before: str, after: str, told: str, clone: Path
) -> None:
    file = clone / name
    file.write_text(file.read_text().replace(before, after, 1))
    changed = release(clone)
    commit(clone)
    refused = release(clone)

    assert (changed.returncode, refused.returncode) == (1, 1)
    assert "release: there are changes; commit them" in changed.stderr
    assert told in refused.stderr
    assert not list(clone.glob("build/release/*.whl"))


@pytest.mark.slow
def test_a_release_has_its_packages_notes_site_contents_and_checksums(clone: Path) -> None:
    made = release(clone)

    assert made.returncode == 0, made.stdout + made.stderr
    files = {path.name for path in (clone / "build/release").iterdir()}
    packages = {f"ao_executor_protocol-{VERSION}-py3-none-any.whl", f"ao_executor_protocol-{VERSION}.tar.gz"}
    assert files == {*packages, "NOTES.md", "SHA256SUMS", f"sbom-{VERSION}.cdx.json", f"site-{VERSION}.tar.gz"}
    assert (clone / "build/release/NOTES.md").read_text().strip() == "- Added: everything."
    for line in (clone / "build/release/SHA256SUMS").read_text().splitlines():
        digest, name = line.split()
        assert hashlib.sha256((clone / "build/release" / name).read_bytes()).hexdigest() == digest
    assert str(clone) not in (clone / f"build/release/sbom-{VERSION}.cdx.json").read_text()
