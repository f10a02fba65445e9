"""The command line as a person meets it, bad input above all."""

from __future__ import annotations

import re
from itertools import dropwhile

import pytest

from hpcpod.cli.parser import main

GOOD = """\
name: small
env: {id: CartPole-v1, num_envs: 2}
population: {pods: {min: 1, max: 1}, algorithms: {ppo: 1}}
round: {env_steps: 64, episodes: 2}
agents: {ppo: {horizon: 8, minibatch_size: 16, epochs: 1}}
stop: {rounds: 1, finalists: 1, confirm_episodes: 2}
"""
"""A run of a second; the fixture ``home`` has it as ``good.yaml``."""


def refusal(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """What a refused command says; it must exit with 2 and print no traceback."""
    assert main(words) == 2
    said = capsys.readouterr()
    assert said.out == ""
    err = without_progress(said.err)
    assert err.startswith("hpcpod: ")
    assert "Traceback" not in err
    return err


def without_progress(text: str) -> str:
    """The text after the lines on what is being done: on a busy machine an import takes ten
    seconds, and has one."""
    lines = text.splitlines(keepends=True)
    return "".join(
        dropwhile(re.compile(r".* \.\.\.$|(hpcpod: )?\S+ is being tried for ").match, lines)
    )


def problem(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """The one problem of a refused ``good.yaml``, a line of its own."""
    [first, line] = refusal(capsys, *words).splitlines()
    assert first == "hpcpod: good.yaml has 1 problem"
    return line.removeprefix("  ")
