"""Reports get into files: whole, into folders that are made, or not at all."""

import os
import stat
from pathlib import Path

import pytest

from ao_conformance.reports import REPORT_KINDS, ReportNotWritten, write_report
from tests.conformance.reports.results import every_verdict, small_result


@pytest.mark.parametrize("kind", REPORT_KINDS)
def test_every_kind_is_written_the_same_each_time_and_its_folder_is_made(kind: str, tmp_path: Path) -> None:
    first, second = tmp_path / "new" / "one", tmp_path / "two"
    write_report(kind, first, [every_verdict()])
    write_report(kind, second, [every_verdict()])

    assert first.read_bytes() == second.read_bytes()
    assert first.read_bytes().endswith(b"\n")
    assert [path.name for path in first.parent.iterdir()] == ["one"]


def test_an_existing_report_is_replaced_also_through_a_link(tmp_path: Path) -> None:
    file, link = tmp_path / "report", tmp_path / "latest"
    file.write_text("old", encoding="utf-8")
    link.symlink_to(file)
    write_report("badge", link, [small_result()])

    assert link.is_symlink()
    assert file.read_text(encoding="utf-8").startswith('{"schemaVersion": 1')


def test_a_minus_is_stdout(capfd: pytest.CaptureFixture[str]) -> None:
    write_report("badge", Path("-"), [small_result()])

    assert capfd.readouterr().out.startswith('{"schemaVersion": 1')


def test_a_device_is_written_to_and_not_replaced() -> None:
    write_report("badge", Path(os.devnull), [small_result()])

    assert stat.S_ISCHR(Path(os.devnull).stat().st_mode)


def test_a_folder_that_cannot_be_made_is_an_error_that_names_the_file(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(
        ReportNotWritten, match=r"cannot write the report '.*file/report': (Not a directory|File exists)"
    ):
        write_report("json", tmp_path / "file" / "report", [small_result()])


def test_a_failed_write_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "taken").mkdir()

    with pytest.raises(ReportNotWritten, match="Is a directory"):
        write_report("json", tmp_path / "taken", [small_result()])
    assert [path.name for path in tmp_path.iterdir()] == ["taken"]
