"""The verb and the method that write a report."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpcpod.cli.parser import main
from hpcpod.errors import StorageError, UserError
from hpcpod.report.write import is_report, write_report
from hpcpod.run.run import Run
from hpcpod.storage.run_folder import RunFolder
from tests.support.full_disk import room_for


def test_the_verb_writes_a_page_and_says_where_and_how_large(
    master: RunFolder, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", str(master.path)]) == 0
    page = home / "report.html"
    said = capsys.readouterr().out
    assert said.startswith("report.html (")
    assert said.endswith(" kB): open it with a browser\n")
    assert page.read_text().startswith("<!doctype html>")
    assert main(["report", str(master.path)]) == 0, "an earlier report is replaced"


def test_another_file_is_not_overwritten_by_accident(
    master: RunFolder, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    thesis = home / "thesis.html"
    thesis.write_text("<h1>My thesis</h1>")
    arguments = ["report", str(master.path), "-o", "thesis.html"]
    assert main(arguments) == 2
    assert "is there already; take another name, or say --overwrite" in capsys.readouterr().err
    assert thesis.read_text() == "<h1>My thesis</h1>"
    assert main([*arguments, "--overwrite"]) == 0
    assert is_report(thesis)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nowhere"], "there is no run at nowhere"),
        (["RUN", "--compare"], "name at least two"),
        (["RUN", "RUN"], "each run once"),
        (["RUN", "-o", "no/such/folder.html"], "there is no folder no/such"),
        (["RUN", "-o", "."], "is no file"),
        (["RUN", "-o", "report.pdf"], "a report is a page (.html) or a picture (.svg)"),
        (["RUN", "-o", "report"], "a report is a page (.html) or a picture (.svg)"),
    ],
)
def test_what_can_t_be_done_is_one_sentence(
    arguments: list[str], said: str, master: RunFolder, home: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    given = [str(master.path) if each == "RUN" else each for each in arguments]
    assert main(["report", *given]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1


def test_a_run_writes_its_own_page_or_picture(master: RunFolder, home: Path) -> None:
    run = Run(master)
    assert write_report(run) == Path("report.html")
    picture = write_report(run, "curves.svg")
    assert picture.read_text().startswith("<svg")
    assert write_report(run, "curves.svg") == picture, "an earlier picture is replaced"
    with pytest.raises(UserError, match="can't write"):
        write_report(run, home)


def test_a_report_that_the_disk_has_no_room_for_leaves_the_earlier_one(
    master: RunFolder, home: Path
) -> None:
    before = write_report(Run(master)).read_text()
    with room_for(2_000), pytest.raises(StorageError, match=r"can't write .*report\.html: "):
        write_report(Run(master))
    assert (home / "report.html").read_text() == before
    assert {path.name for path in home.iterdir()} == {"report.html", "good.yaml"}
