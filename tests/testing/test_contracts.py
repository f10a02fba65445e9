"""The contract of agents fails those that break it, and says how."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from hpcpod.testing import AgentContract

BROKEN = {
    "GivesLiveTensors": ("a_copy_of", "changed by training on, though state() had given them: net"),
    "GivesParameters": ("a_copy_of", "not plain tensors, but parameters or something else: netw"),
    "KeepsAHyperparameter": ("a_copy_of", "hyperparameters in a state(): gamma"),
    "ForgetsItsGenerator": ("resumed", "from the run that was not stopped: network/"),
    "DrawsFromEverywhere": ("global", "the agent, or its environment, draws from: torch"),
    "AlwaysExplores": ("acting_without", "act(explore=False) varies"),
    "CountsItsActions": ("acting_without", "changed by act(explore=False): updates"),
    "GivesSmallIntegers": (
        "actions_have",
        "act(explore=True) gives torch.int32 [4] on cpu, but the space demands torch.int64 [4]",
    ),
    "ChoosesWhatIsNotThere": ("actions_have", "act(explore=True) gives actions out of bounds: ["),
    "SaysNoRule": ("how_it_is_fused", "the tensor 'scale' of its state has no rule; declare"),
    "TakesWhateverFits": ("refused_by_name", "DID NOT RAISE"),
    "KeepsWhatItLoads": ("was_loaded", "changed by training on, though they were only loaded: n"),
    "NeverDies": ("diverged", "DID NOT RAISE"),
    "LearnsNothing": (
        "it_learns",
        "nothing is learned in 7 iterations; make `config`",
    ),
    "IgnoresReseed": ("reseeding", "different although reseed() was given the same seed: network"),
    "ReseedsWeights": ("reseeding", "changed by reseed(): updates"),
    "IgnoresItsSeed": ("equal_arguments", "another seed gives the same run"),
    "CountsOnTheBatch": ("fresh_weights", "different with another num_envs: network/"),
    "Undocumented": ("config_is_frozen", "hyperparameters without a docstring below them: pat"),
    "Misspelled": ("config_is_frozen", "marks of hyperparameters that mean nothing: near1"),
    "Open": ("config_is_frozen", "DID NOT RAISE"),
    "Required": ("a_configuration_can", "missing 1 required positional argument: 'gamma'"),
    "Missing": ("a_configuration_can", "module tests.support.broken_agents has no 'Missing'"),
}
"""Each class of ``broken_agents``: the test that it must fail, and what that says. One is none."""


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What pytest says of them, each tried in the one test that it must fail."""
    folder = tmp_path_factory.mktemp("plugin")
    lines = ["from hpcpod.testing import AgentContract"]
    for name in BROKEN:
        lines += [
            f"class Test{name}(AgentContract):",
            f'    agent = "tests.support.broken_agents:{name}"',
            '    env = "CartPole-v1"',
            '    config = {"horizon": 16, "minibatch_size": 32, "epochs": 2}'
            if name not in ("Open", "Required", "Missing")
            else "    config = {}",
        ]
    (folder / "test_broken.py").write_text("\n".join(lines) + "\n")
    chosen = [
        f"{folder / 'test_broken.py'}::Test{name}::{test}"
        for name, (part, _) in BROKEN.items()
        for test in vars(AgentContract)
        if test.startswith("test_") and part in test
    ]
    assert len(chosen) == len(BROKEN)
    done = subprocess.run(
        [
            sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider",
            f"--rootdir={folder}", *chosen,
        ],
        cwd=Path(__file__).parents[2], text=True, capture_output=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("name", BROKEN)
def test_an_agent_that_breaks_a_promise_fails_its_test(said: str, name: str) -> None:
    _, words = BROKEN[name]
    [*_, after] = re.split(rf"^_+ Test{name}\.test_\w+(?:\[\w+\])? _+$", said, flags=re.MULTILINE)
    own = re.split(r"^_+ Test", after, flags=re.MULTILINE)[0]
    assert words in own, own


def test_nothing_passes_that_is_broken(said: str) -> None:
    assert " passed" not in said.splitlines()[-1], said[-2000:]


def test_without_pytest_it_says_what_to_install() -> None:
    code = "import sys; sys.modules['pytest'] = None; import hpcpod.testing"
    done = subprocess.run([sys.executable, "-c", code], text=True, capture_output=True, check=False)
    last = done.stderr.splitlines()[-1]
    assert last == "ModuleNotFoundError: hpcpod.testing needs pytest: pip install 'hpcpod[test]'"
