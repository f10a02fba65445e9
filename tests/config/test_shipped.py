"""Every configuration that comes along is one: ``hpcpod validate`` says so."""

from __future__ import annotations

import importlib.util
import re
import shutil
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

import pytest

from hpcpod.cli.parser import main
from hpcpod.config.loader import load_file
from hpcpod.run.continuous.cycle import stream_of
from hpcpod.run.run import open_run

CONFIGS = Path(__file__).parents[2] / "configs"
FILES = sorted(str(path.relative_to(CONFIGS)) for path in CONFIGS.rglob("*.yaml"))


EXTRAS = {
    "-v5": ("mujoco", "imageio"), "LunarLander": ("Box2D", "pygame"),
    "backend: warp": ("mujoco_warp",),
}  # fmt: skip
"""Packages that a task needs beside hpcpod's own, by a word of its name."""


def needs_its_simulator(name: str) -> None:
    text = (CONFIGS / name).read_text()
    needed = [package for word, extra in EXTRAS.items() if word in text for package in extra]
    if not all(importlib.util.find_spec(package) for package in needed):
        pytest.skip(f"needs {', '.join(needed)}")


@pytest.mark.parametrize("name", FILES)
def test_a_configuration_is_valid(
    name: str, home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # `home` is an empty working directory: simulators write their logs there
    needs_its_simulator(name)
    if name.startswith("programs/"):  # a command's file is looked for where it is launched from
        shutil.copytree(CONFIGS / "programs", home / "configs" / "programs")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")  # Isaac Lab's and Warp's need one
    code = main(["validate", str(CONFIGS / name)])
    said = capsys.readouterr()
    assert code == 0, said.err
    assert ("# ablation: 16 runs" if name.startswith("sweep_") else "# births: ") in said.out


def test_a_configuration_that_is_retrained_has_a_stream_with_a_first_cycle() -> None:
    texts = {name: (CONFIGS / name).read_text() for name in FILES}
    assert [name for name, text in texts.items() if "\nct:" in text] == ["trading.yaml"]
    config = load_file(CONFIGS / "trading.yaml")
    stream = stream_of(config)
    look = stream.look(None, 1)
    assert look.due and look.remarks == () and look.windows is not None
    end = look.windows.end
    # The date of its comment uncovers enough sessions for a second cycle.
    [date] = re.findall(r"market\.below=(\S+)`", texts["trading.yaml"])
    kwargs = dict(config.env.kwargs)
    kwargs["market"] = {**kwargs["market"], "below": date}  # type: ignore[dict-item]
    early = replace(config, env=replace(config.env, kwargs=kwargs))
    first = stream_of(early).look(None, 1).windows
    assert first is not None and first.end <= date < end
    assert stream.look(first, 2).due


@pytest.mark.parametrize("name", ["ant_ppo", "humanoid_ppo"])
def test_a_walker_s_run_trains_on_mujoco_and_is_scored_by_gymnasium(
    name: str, home: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    needs_its_simulator(f"{name}.yaml")
    short = [
        "round.env_steps=4096", "round.episodes=2", "stop.rounds=1", "stop.confirm_episodes=2",
        "stop.finalists=1", "population.pods.max=2",
    ]  # fmt: skip
    code = main(["launch", str(CONFIGS / f"{name}.yaml"), *(f"--set={field}" for field in short)])
    said = capfd.readouterr()
    assert code == 0, said.err
    run = open_run(name.replace("_", "-"))
    report = run.folder.reports.read("p0001-00001-1")
    (final,) = run.board().confirmed
    mujoco, gymnasium = (f"{package} {version(package)}" for package in ("mujoco", "gymnasium"))
    assert report is not None and report.engine == f"{mujoco}, {gymnasium}"
    assert (final.engine, final.episodes) == (f"{gymnasium}, {mujoco}", 2)
    assert run.board().env_steps == 2 * 4096
