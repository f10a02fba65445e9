"""The rule by which each named tensor of an agent is fused, by hand."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest
import torch

from hpcpod.agents.fusion import Rule, fusion_rule, fusion_rules
from hpcpod.agents.ppo import PPO, PPOConfig
from hpcpod.agents.sac import SAC, SACConfig
from hpcpod.envs.vec_env import Box
from hpcpod.errors import UnusablePlugin
from tests.agents.training import spec


class Own:
    """An agent with tensors that no other has."""

    FUSION: ClassVar[dict[str, Any]] = {
        "scale": "mean",
        "visits/*": "max",
        "network/frozen.*": "local",
        "twice/*": "mean",
        "twice/a": "max",
        "odd": "median",
        "returns/*": "moments",
    }


@pytest.mark.parametrize(
    ("name", "rule"),
    [
        ("network/0.weight", "mean"),
        ("network/head.log_std", "mean"),
        ("network/temperature/log_alpha", "mean"),
        ("target/critics/hidden.weights.0", "mean"),
        ("optimizer/exp_avg/0.weight", "mean"),
        ("optimizer/actor/exp_avg_sq/0.weight", "mean"),
        ("optimizer/step", "max"),
        ("optimizer/actor/step", "max"),
        ("normalizer/mean", "moments"),
        ("normalizer/obs/count", "moments"),
        ("env_steps", "sum"),
        ("updates", "max"),
        ("rng", "local"),
    ],
)
def test_the_usual_names_have_one_rule_each(name: str, rule: Rule) -> None:
    assert fusion_rule(PPO, name) == rule


def test_an_agent_declares_its_own_names_and_overrules_the_usual_ones() -> None:
    assert fusion_rule(Own, "scale") == fusion_rule(Own(), "scale") == "mean"
    assert fusion_rule(Own, "visits/room/3") == "max"
    assert fusion_rule(Own, "network/frozen.weight") == "local"
    assert fusion_rule(Own, "network/0.weight") == "mean"


@pytest.mark.parametrize(
    ("agent", "name", "sentence"),
    [
        (
            PPO(spec(), PPOConfig(), 0),
            "scale",
            "how replicas of PPO are fused is not decided: the tensor 'scale' of its state has no"
            " rule; declare FUSION = {'scale': ...} in the class, with one of 'mean', 'max', 'sum',"
            " 'moments' or 'local'",
        ),
        (Own, "twice/a", "has two rules, in {'twice/*': 'mean', 'twice/a': 'max'}; declare"),
        (Own, "odd", "has a rule that there is not, in {'odd': 'median'}; declare"),
        (PPO, "optimizer/exp_avg/step", "has two rules, in {'optimizer*/exp_avg/*': 'mean', 'opt"),
    ],
)
def test_no_rule_and_two_are_refused_with_what_to_declare(
    agent: object, name: str, sentence: str
) -> None:
    with pytest.raises(UnusablePlugin) as refusal:
        fusion_rule(agent, name)
    assert sentence in str(refusal.value)


def test_a_whole_state_is_decided_at_once() -> None:
    ppo = PPO(spec(Box((1,), -1.0, 1.0)), PPOConfig(hidden=4, layers=1, normalize_returns=False), 0)
    rules = fusion_rules(ppo, ppo.state())
    assert rules.keys() == ppo.state().keys()
    assert {name for name, rule in rules.items() if rule != "mean"} == {
        "optimizer/step", "rng", "env_steps", "updates",
        *(f"normalizer/obs/{part}" for part in ("mean", "var", "count")),
    }  # fmt: skip
    sac = SAC(spec(Box((1,), -1.0, 1.0)), SACConfig(hidden=4, layers=1), 0)
    rules = fusion_rules(sac, sac.state())
    assert (
        rules["network/temperature/log_alpha"] == rules["target/critics/hidden.weights.0"] == "mean"
    )
    assert rules["optimizer/temperature/step"] == "max" and rules["env_steps"] == "sum"


@pytest.mark.parametrize(
    ("state", "sentence"),
    [
        (
            {"scale": torch.zeros(2, dtype=torch.int64)},
            "'scale' of its state is torch.int64, of which there is no mean",
        ),
        (
            {"returns/mean": torch.zeros(1), "returns/var": torch.ones(1)},
            "'returns/mean' of its state has the rule 'moments', but is not of 'returns/mean',"
            " 'returns/var', 'returns/count'",
        ),
        (
            {f"returns/{part}": torch.zeros(()) for part in ("mean", "var", "count", "sum")},
            "'returns/sum' of its state has the rule 'moments', but is not of 'returns/mean'",
        ),
    ],
)
def test_a_rule_that_a_tensor_cannot_follow_is_refused(
    state: dict[str, torch.Tensor], sentence: str
) -> None:
    with pytest.raises(UnusablePlugin) as refusal:
        fusion_rules(Own, state)
    assert sentence in str(refusal.value)
