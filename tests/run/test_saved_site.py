"""The site of a saved configuration: its fields are in it, and its file may be gone."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpcpod.config.loader import from_mapping
from hpcpod.errors import UserError
from hpcpod.run.continuous.find import registry_of
from hpcpod.run.continuous.registry import create
from hpcpod.run.evaluation.slurm import slurm_config
from hpcpod.run.preflight import site_for
from tests.support.small_runs import create as create_run
from tests.support.small_runs import mapping


def test_a_registry_is_changed_from_any_folder(tmp_path: Path) -> None:
    create(from_mapping(mapping(ct={}, cluster={"site": "gone.yaml"})), "a test", tmp_path)
    config = registry_of("small", ["ct.every=2d"], tmp_path).config
    assert config.ct is not None
    assert (config.ct.every, config.cluster.site) == ("2d", "gone.yaml")


def test_a_run_is_taken_over_from_any_folder(tmp_path: Path) -> None:
    run = create_run(tmp_path, ct={}, cluster={"site": "gone.yaml"})
    with pytest.raises(UserError, match="small has not finished"):
        registry_of(str(run.path), home=tmp_path)


def test_policies_of_a_run_are_scored_from_any_folder(tmp_path: Path) -> None:
    placed = {"launcher": "slurm", "partition": "gpu", "site": "gone.yaml"}
    run = create_run(tmp_path, cluster=placed)
    assert slurm_config([str(run.path)], {}).cluster.partition == "gpu"


def test_scoring_on_slurm_has_the_site_of_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "site.yaml").write_text("cluster: {partition: gpu, account: lab}\n")
    monkeypatch.setenv("HPCPOD_SITE", str(tmp_path / "site.yaml"))
    found = slurm_config([], {}, site=site_for(None, "slurm")).cluster
    assert (found.partition, found.account) == ("gpu", "lab")
    run = create_run(tmp_path, cluster={"launcher": "slurm", "partition": "cpu"})
    found = slurm_config([str(run.path)], {}, site=site_for(None, "slurm")).cluster
    assert found.partition == "cpu"  # a run has its site's fields already
