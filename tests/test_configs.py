"""Every configuration that comes along is one: ``hpcpod validate`` says so."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from hpcpod.cli import main

CONFIGS = Path(__file__).parents[1] / "configs"
FILES = sorted(str(path.relative_to(CONFIGS)) for path in CONFIGS.rglob("*.yaml"))


@pytest.mark.parametrize("name", FILES)
def test_a_configuration_is_valid(
    name: str, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # `home` is an empty working directory: simulators write their logs there
    extra = ("mujoco", "imageio") if name.startswith("mujoco") else ()
    if not all(importlib.util.find_spec(package) for package in extra):
        pytest.skip("needs the extra mujoco")
    code = main(["validate", str(CONFIGS / name)])
    said = capsys.readouterr()
    assert code == 0, said.err
    assert "# births: " in said.out
