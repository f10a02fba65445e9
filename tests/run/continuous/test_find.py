"""The registry that a person means: whose it is, what it was made from, where its files begin."""

from __future__ import annotations

import json
import os
import subprocess
import time
from pathlib import Path

import pytest

import hpcpod
from hpcpod.cli.parser import main
from hpcpod.config.loader import dump_yaml, from_mapping, to_mapping
from hpcpod.errors import ConfigError, UserError
from hpcpod.run.continuous import training
from hpcpod.run.continuous.cycle import advance, stream_of
from hpcpod.run.continuous.entries import Plan
from hpcpod.run.continuous.find import registry_of
from hpcpod.run.continuous.registry import create, open_registry
from hpcpod.run.continuous.schedule import crontab
from hpcpod.run.preflight import read_config, site_for
from tests.run.continuous.worlds import drive, fill
from tests.support.command_line import refusal
from tests.support.small_runs import create as create_run
from tests.support.small_runs import mapping


def test_a_stream_that_another_user_names_is_never_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give a file to another user")
    (tmp_path / "evil_stream.py").write_text("open('was-run', 'w').close()\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.chdir(tmp_path)
    theirs = create(from_mapping(mapping(ct={"stream": "evil_stream:X"})), "a test", tmp_path)
    os.chown(theirs.path / "ct.json", 65521, 65500)
    with pytest.raises(UserError, match="belongs to"):
        registry_of("small", ["ct.every=2d"], tmp_path)
    told = refusal(capsys, "ct", "small", "--runs", str(tmp_path), "--crontab")
    assert "only" in told and "trains, deploys and rolls back" in told
    assert not (tmp_path / "was-run").exists() and not (theirs.path / "logs").exists()


def test_a_run_that_has_not_finished_is_taken_over_by_no_call(tmp_path: Path) -> None:
    run = create_run(tmp_path, ct={"every": "1d"})
    with pytest.raises(UserError, match="small has not finished"):
        registry_of(str(run.path), home=tmp_path)
    assert not (tmp_path / "small.ct").exists()
    # As though a process had been killed when it had made the registry.
    config = from_mapping(mapping(ct={"every": "1d"}))
    registry = create(config, str(run.path), tmp_path)
    with pytest.raises(UserError, match="small has not finished"):
        registry_of("small", home=tmp_path)
    assert registry.plans() == []


def test_two_tasks_of_one_name_have_no_common_registry(tmp_path: Path) -> None:
    config = from_mapping(mapping(ct={}))
    made = create(config, "/one.yaml", tmp_path)
    assert create(config, "/moved.yaml", tmp_path).path == made.path
    other = from_mapping(mapping(ct={}, env={"num_envs": 8}))
    with pytest.raises(UserError, match=r"is the registry of /one\.yaml, whose env is another"):
        create(other, "/two.yaml", tmp_path)
    assert create(other, "/one.yaml", tmp_path).config == config  # that file may change


def test_a_budget_below_a_round_is_refused_only_where_a_registry_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(training, "drive", drive)  # in this process
    file = tmp_path / "short.yaml"
    config = from_mapping(mapping(ct={}, stop={"env_steps": 100}))
    file.write_text(dump_yaml(config))
    with pytest.raises(ConfigError, match=r"no round of 512 steps .* ends within 100; set"):
        registry_of(str(file), home=tmp_path)
    assert not (tmp_path / "small.ct").exists()
    create(config, str(file), tmp_path)  # as earlier versions did
    assert advance(registry_of(str(file), home=tmp_path), probe=False).kind == "promoted"


@pytest.mark.parametrize("own", [{}, {"site": None}])
def test_the_site_of_the_environment_is_laid_under_a_configuration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own: dict[str, None]
) -> None:
    """As by `hpcpod launch`, which a configuration whose ``cluster.site`` is null does without."""
    monkeypatch.chdir(tmp_path)
    Path("site.yaml").write_text("cluster: {partition: gpu}\n")
    monkeypatch.setenv("HPCPOD_SITE", str(tmp_path / "site.yaml"))
    Path("small.yaml").write_text(json.dumps(mapping(ct={}, cluster=own)))
    assert main(["ct", "small.yaml", "--crontab", "--every", "1d"]) == 0
    launched = read_config("small.yaml", site=site_for(None, None)).cluster.partition
    assert launched == (None if own else "gpu")
    assert open_registry("small").config.cluster.partition == launched
    assert hpcpod.ct("small.yaml").registry.config.cluster.partition == launched
    monkeypatch.delenv("HPCPOD_SITE")  # cron has no variables of a shell
    assert registry_of("small").config.cluster.partition == launched


def test_the_line_of_a_crontab_finds_its_files_from_anywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "data.txt").write_text("one")
    monkeypatch.chdir(tmp_path)
    registry = create(
        from_mapping(mapping(ct={"every": "1s", "data": ["data.txt"]})), "a test", tmp_path / "runs"
    )
    seen = stream_of(registry.config).look(None, 1).windows
    assert seen is not None
    registry.publish_plan(
        Plan(1, to_mapping(registry.config), seen, None, "a test", time.time() - 9)
    )
    registry.decide("failed", None, None, "a test", 1)
    (registry.path / "logs").mkdir()
    line = crontab(registry).split(None, 5)[5].replace(r"\%", "%")
    done = subprocess.run(["sh", "-c", line], cwd="/", check=False)
    told = (registry.path / "logs" / "cron.log").read_text()
    assert "data.txt have not changed since the last cycle" in told
    assert done.returncode == 0


def test_a_version_of_a_cycle_that_was_given_up_is_told_as_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from hpcpod.run.continuous.cycle import abandon

    registry = create(from_mapping(mapping(ct={})), "a test", tmp_path)
    fill(registry, 1)
    fill(registry, 2)
    (registry.path / "decisions" / "000002.json").unlink()
    with monkeypatch.context() as later:
        later.setattr(time, "time", lambda: 4e9)
        abandon(registry)
    since = time.strftime("%Y-%m-%d %H:%M", time.localtime(registry.decisions()[0].time))
    monkeypatch.setenv("HPCPOD_RUNS", str(tmp_path))
    assert main(["ct", "status"]) == 0
    told = capsys.readouterr().out
    assert "failed" in told and "undecided" not in told
    assert f"small: v0001 is deployed since {since}" in told
