"""Templates of scripts: their variables and their refusals."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpcpod.errors import UserError
from hpcpod.launchers.slurm import templates
from hpcpod.launchers.slurm.templates import load, render, template_folder


def test_only_the_braced_at_sign_is_a_variable() -> None:
    shell = 'echo "$HOME ${a[@]}" user@host $(id) @{name} USR2@90'
    assert render(shell, {"name": "ant"}) == 'echo "$HOME ${a[@]}" user@host $(id) ant USR2@90'


def test_a_value_is_not_a_template() -> None:
    assert render("@{a}", {"a": "@{b}", "b": "no"}) == "@{b}"


def test_a_line_of_an_empty_variable_goes_and_an_empty_word_stays() -> None:
    assert render("one\n@{setup}\ntwo @{setup}.\n", {"setup": ""}) == "one\ntwo .\n"


def test_an_unknown_variable_is_refused_with_the_known_ones() -> None:
    with pytest.raises(UserError) as caught:
        render("@{folders} @{walltime}", {"folder": "", "token": ""})
    assert str(caught.value) == (
        "unknown in a template: @{folders}, @{walltime}; did you mean 'folder'?"
        " (known: folder, token)"
    )


def test_ones_own_folder_wins_and_what_it_lacks_is_the_default(tmp_path: Path) -> None:
    (tmp_path / "pod_array.sbatch").write_text("mine")
    assert load(str(tmp_path), "pod_array.sbatch") == "mine"
    assert load(str(tmp_path), "orchestrator.sbatch") == load("default", "orchestrator.sbatch")


def test_a_folder_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"there is no folder .*nowhere"):
        template_folder(str(tmp_path / "nowhere"))


def test_the_installed_package_brings_its_templates(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "hpcpod"
    (package / "slurm_templates").mkdir(parents=True)
    monkeypatch.setattr(templates, "PACKAGE", package)
    assert template_folder("default") == package / "slurm_templates"
