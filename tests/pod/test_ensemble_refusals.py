"""Refusals of ensembles: one sentence each, which names the members."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
import torch
from torch import Tensor

from hpcpod.envs.make import make_env
from hpcpod.envs.vec_env import Box, Discrete, EnvSpec, MultiDiscrete
from hpcpod.errors import UserError
from hpcpod.pod.ensemble import ensemble_of, rules_for
from hpcpod.pod.policy import Policy
from tests.pod.test_ensemble import ONE, Table, agent_of, spec

SPECS: Mapping[str, EnvSpec] = {
    "cartpole": spec(Discrete(2)),
    "three": spec(Discrete(3)),
    "shifted": spec(Discrete(2, start=1)),
    "several": spec(MultiDiscrete((2, 2))),
    "wide": EnvSpec("Wide-v0", Box((4,), -1.0, 1.0), Discrete(2), 2, "cpu", None, ""),
    "parts": EnvSpec(
        "Parts-v0", Box((1,), 0.0, 9.0), Discrete(2), 8, "cpu", 5, "other",
        structure={"kind": "Dict", "parts": [["a", {"kind": "Discrete", "n": 1, "start": 0}]]},
    ),
    "pendulum": ONE,
    "strong": spec(Box((1,), -1.0, 1.0), (-3.0, 3.0)),
    "double": EnvSpec(
        "Double-v0", Box((1,), -1.0, 1.0), Box((1,), -1.0, 1.0), 2, "cpu", None, "", (-2.0, 2.0),
        action_dtype="float64",
    ),
    "gpu": EnvSpec("Task-v0", Box((1,), -1.0, 1.0), Discrete(2), 2, "cuda:0", None, ""),
    "elsewhere": EnvSpec("Other-v9", Box((1,), 0.0, 5.0), Discrete(2), 9, "cpu", 7, "gym 9"),
}  # fmt: skip


def refusal(rule: Any, *members: tuple[str, Any, str]) -> str:
    """The sentence about members, each by the name of its spec, its agent and its name."""
    policies = [
        Policy(agent, SPECS[task], {"agent": name, "pod": f"p{i}", "round": 1})
        for i, (task, agent, name) in enumerate(members)
    ]
    with pytest.raises(UserError) as caught:
        ensemble_of(policies, rule)
    assert "\n" not in str(caught.value)
    return str(caught.value)


class Silent:
    """Acts, and can say no more."""

    def act(self, obs: Tensor, *, explore: bool) -> Tensor:
        return torch.zeros(len(obs), 1)


@pytest.mark.parametrize(
    ("other", "said"),
    [
        ("three", "their actions differ, {start: 0, n: 2, kind: Discrete} and {start: 0, n: 3, k"),
        ("shifted", "their actions differ, {start: 0, n: 2, kind: Discrete} and {start: 1, n: 2"),
        ("wide", "their observations differ, {kind: Box, shape: [1], dtype: float32} and {kind"),
        ("parts", "their parts of observations differ, null and {kind: Dict, parts: [[a, {kind: D"),
    ],
)
def test_members_of_other_spaces_are_refused_by_name(other: str, said: str) -> None:
    found = refusal("vote", ("cartpole", Silent(), "ppo"), (other, Silent(), "dqn"))
    assert found.startswith(
        "p0 (ppo, round 1) and p1 (dqn, round 1) can't be members of one ensemble: "
    )
    assert said in found


def test_actions_of_other_bounds_or_dtypes_are_refused() -> None:
    bounds = refusal("mean", ("pendulum", Silent(), "ppo"), ("strong", Silent(), "sac"))
    assert "their bounds of actions differ, [-2.0, 2.0] and [-3.0, 3.0]" in bounds
    dtypes = refusal("mean", ("pendulum", Silent(), "ppo"), ("double", Silent(), "sac"))
    assert "their dtypes of actions differ, float32 and float64" in dtypes


def test_environments_of_equal_spaces_may_have_other_names_and_engines() -> None:
    agents = [Policy(Table(1), SPECS[name], {}) for name in ("cartpole", "elsewhere")]
    assert ensemble_of(agents, "vote")([0.0]) == 1


@pytest.mark.parametrize(
    ("rule", "task", "names", "said"),
    [
        ("median", "pendulum", "sac sac", "there is no rule 'median': the rules are mean, vote, "),
        ("mean", "cartpole", "ppo ppo", "rule mean is not for the discrete actions of Task-v0: use"
         " vote or product or q_weighted"),
        ("vote", "pendulum", "ppo ppo", "rule vote is not for the continuous actions of Task-v0:"
         " use mean or q_weighted"),
        ("q_weighted", "several", "ppo ppo", "rule q_weighted is not for the multi-discrete"),
        ("product", "cartpole", "ppo dqn", "multiplies distributions of choices, and p0 (ppo,"
         " round 1) has none: use vote"),
        ("q_weighted", "pendulum", "ppo ppo", "asks critics to value actions, and p0 (ppo, round"
         " 1) has none: use mean"),
        ("q_weighted", "pendulum", "sac td3", "compares values of one algorithm, but p0 (sac,"
         " round 1) and p1 (td3, round 1) are of two: use mean"),
        ("vote", "cartpole", "ppo", "an ensemble has 2 to 64 members, not 1"),
        ("vote", "cartpole", "ppo " * 65, "an ensemble has 2 to 64 members, not 65"),
    ],
)  # fmt: skip
def test_a_rule_that_is_not_for_these_members_is_refused(
    rule: str, task: str, names: str, said: str
) -> None:
    assert said in refusal(rule, *[(task, Silent(), name) for name in names.split()])


def test_the_built_in_agents_say_what_they_can_be_asked() -> None:
    choices, box = make_env("CartPole-v1", 1).spec, make_env("Pendulum-v1", 1).spec
    with pytest.raises(UserError, match=r"p0000 \(dqn, round 2\) has none: use vote"):
        ensemble_of([agent_of("dqn", choices, 0), agent_of("ppo", choices, 1)], "product")
    with pytest.raises(UserError, match=r"p0000 \(a2c, round 2\) has none: use mean"):
        ensemble_of([agent_of("a2c", box, 0), agent_of("a2c", box, 1)], "q_weighted")
    dqn, ppo, sac = (
        agent_of(*each, 0) for each in [("dqn", choices), ("ppo", choices), ("sac", box)]
    )
    assert rules_for([dqn, dqn]) == ["vote", "q_weighted"]
    assert rules_for([ppo, ppo]) == ["vote", "product"]
    assert rules_for([ppo, dqn]) == ["vote"]
    assert rules_for([sac, sac]) == ["mean", "q_weighted"]
    assert rules_for([sac, ppo]) == rules_for([sac]) == rules_for([]) == []


def test_members_on_two_devices_are_refused() -> None:
    said = refusal("vote", ("cartpole", Silent(), "ppo"), ("gpu", Silent(), "ppo"))
    assert "p1 (ppo, round 1) is on cuda:0, and the first member on cpu" in said


def test_an_ensemble_of_ensembles_is_refused() -> None:
    env_spec = SPECS["cartpole"]
    one = Policy(Table(1), env_spec, {})
    with pytest.raises(UserError, match=r"member 2 \(an ensemble\) is an ensemble itself: give"):
        ensemble_of([one, ensemble_of([one, one], "vote")], "vote")
