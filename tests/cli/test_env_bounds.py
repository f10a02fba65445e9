"""Bounds of a space, as ``hpcpod envs check`` shows them."""

from __future__ import annotations

import math

import pytest

from hpcpod.cli import envs
from hpcpod.cli.parser import main

QUICK = ("--steps", "60", "--seconds", "0.01", "--num-envs", "2")


def test_bounds_are_those_of_each_element(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["envs", "check", "CartPole-v1", *QUICK]) == 0
    bounds = "-4.8 to 4.8 at 0; unbounded at 1, 3; -0.418879 to 0.418879 at 2\n"
    assert f"  observation  box of float32 [4], {bounds}" in capsys.readouterr().out
    assert main(["envs", "check", "MountainCarContinuous-v0", *QUICK]) == 0
    said = capsys.readouterr().out
    assert "box of float32 [2], -1.2 to 0.6 at 0; -0.07 to 0.07 at 1\n" in said
    assert "  action       box of float32 [1], -1 to 1, which stand for -1 to 1\n" in said
    assert main(["envs", "check", "BipedalWalker-v3", *QUICK]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "; -5 to 5 at 1-3, 5, 7, 10, 12; 0 to 5 at 8, 13; -1 to 1 at 14-23 action" in said


def test_many_bounds_are_cut_short() -> None:
    assert envs._ranges(0.0, list(range(20))).endswith("; 0 to 11 at 11; 8 more (--json has all)")
    assert envs._ranges([-math.inf, 0.0] * 20, math.inf).count("more (--json has all)") == 2
    assert envs._ranges([-math.inf], [3.0]) == "at most 3"
    assert envs._ranges([], []) == "empty"
