"""Exports act as their agents do, and those that do not are refused."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from hpcpod.deploy.checks import Differs, Exported, check_parity, onnx_policy
from hpcpod.deploy.environment_terms import (
    as_policy_takes,
    in_parts,
    parts_of_observation,
    portable,
    to_agent,
)
from hpcpod.deploy.export import write_numpy
from hpcpod.deploy.numpy_policy import Policy as NumpyPolicy
from hpcpod.deploy.observations import Inputs, drawn, extreme
from hpcpod.deploy.onnx_file import onnx_model
from hpcpod.deploy.play import rows_of
from hpcpod.envs.arrays import Array
from hpcpod.pod.ensemble import ensemble_of
from hpcpod.pod.policy import Policy
from hpcpod.storage.policy_blobs import Rule
from tests.deploy.policies import KINDS, SEVERAL, Forgetful, Layered, own_policy, policy_of


def exports(policy: Policy, folder: Path) -> dict[str, Exported]:
    done = portable(policy)
    assert not done.obstacle
    data = onnx_model(done, rows_of(policy.spec, 2))
    return {"policy.onnx": onnx_policy(data), "policy.h5": write_numpy(done, folder)}


def sets(policy: Policy, count: int = 96) -> Mapping[str, Inputs]:
    rng = np.random.default_rng(1)
    return {
        "random": drawn(policy.spec, count, rng, None),
        "extreme": extreme(policy.spec, 24, rng, None),
    }


@pytest.mark.parametrize("name", KINDS)
def test_onnx_and_numpy_act_as_the_agent_does(name: str, tmp_path: Path) -> None:
    policy = next(policy for policy in map(partial(policy_of, KINDS[name]), range(9)) if
                  len(np.unique(actions(policy, "random"), axis=0)) > 1)  # fmt: skip
    exported = exports(policy, tmp_path)
    for kind, inputs in sets(policy).items():
        found = check_parity(policy, exported, kind, inputs)
        assert found.largest < 1e-5 and len(found.within_rounding) < 2
        assert exported["policy.onnx"](inputs).dtype == actions(policy, kind).dtype


def actions(policy: Policy, name: str) -> Array:
    found: Array = policy(as_policy_takes(policy.spec, sets(policy)[name]))
    return found


def test_an_agent_of_a_users_own_that_writes_its_operations_is_exported(tmp_path: Path) -> None:
    policy = own_policy(Layered)
    exported = exports(policy, tmp_path)
    inputs = sets(policy)["random"]
    assert check_parity(policy, exported, "random", inputs).within_rounding == ()
    assert set(exported["policy.h5"](inputs).tolist()) == {0, 1}


def test_the_numpy_reader_takes_one_observation_a_batch_and_nothing_else(tmp_path: Path) -> None:
    policy = policy_of(KINDS["ppo of a dictionary"])
    exports(policy, tmp_path)
    reader = NumpyPolicy(tmp_path / "policy.h5")
    one = {"side": 1, "place": [0.1, 0.9, 0.4]}
    both = {"side": [1, 0], "place": [[0.1, 0.9, 0.4], [0.0, 0.0, 0.0]]}
    assert reader(one) == policy(one) and np.shape(reader(one)) == ()
    assert reader(both).tolist() == policy(both).tolist()
    with pytest.raises(ValueError, match=r"place has shape \(2,\), not \(3,\)"):
        reader({"side": 1, "place": [0.1, 0.9]})
    with pytest.raises(KeyError, match="place"):
        reader({"side": 1})


def test_names_of_inputs_are_unique_and_never_the_outputs() -> None:
    parts = parts_of_observation(policy_of(KINDS["ppo of awkward parts"]).spec)
    names = [part.name for part in parts]
    assert names == [
        "_", "_%1", "action_", "arm/at", "arm/on", "arm/at_", "arm/on/0", "arm/on/1",
    ]  # fmt: skip
    assert [part.path for part in parts][3:7] == [
        ("arm", "at"), ("arm", "on"), ("arm/at",), ("arm/on", 0),
    ]  # fmt: skip


@pytest.mark.parametrize("name", ["ppo of awkward parts", SEVERAL])
def test_rows_and_actions_come_back_as_the_agent_has_them(name: str) -> None:
    policy = policy_of(KINDS[name])
    inputs = sets(policy)["random"]
    rows, _ = policy._read(as_policy_takes(policy.spec, inputs))
    for part, array in in_parts(policy.spec, rows).items():
        np.testing.assert_allclose(array, inputs[part], rtol=1e-6)


def test_actions_of_the_environment_become_the_agents_again() -> None:
    policy = policy_of(KINDS["ppo of 64-bit actions far apart"])
    own = np.array([[-1.0, -1.0, 1.0], [0.25, 0.5, -0.5], [1.0, 0.0, 0.0]], np.float32)
    there = policy._translated(np.concatenate([own, own[:, :1]], axis=1))
    assert there[1].tolist() == [0.25, 0.85e308, 1000.125, 7.0]
    np.testing.assert_allclose(to_agent(policy.spec, there)[:, :3].numpy(), own, atol=1e-6)


def test_an_export_without_the_normaliser_is_refused_by_file_observation_and_actions(
    tmp_path: Path,
) -> None:
    policy = own_policy(Forgetful)
    exported = exports(policy, tmp_path)
    with pytest.raises(Differs) as refused:
        check_parity(policy, exported, "random", sets(policy)["random"])
    said = str(refused.value)
    assert said.startswith("policy.onnx is refused: its 'action' at random observation ")
    assert "in batches of 1, is " in said and "and the agent's is " in said
    assert "CartPole-v1 observes observation = [" in said


def switched(policy: Policy, at: Array) -> Exported:
    """An export that takes the other action of two for one observation."""

    def act(inputs: Inputs) -> Array:
        action = policy(as_policy_takes(policy.spec, inputs))
        other = (inputs["observation"] == at).all(axis=1)
        return np.where(other, 1 - action, action)

    return act


def test_another_choice_is_allowed_only_where_the_last_digit_of_a_weight_decides() -> None:
    policy = policy_of(KINDS["ppo"])
    before, inputs = policy.stored()[0], dict(sets(policy)["random"])
    rows = inputs["observation"]
    both = [rows[np.flatnonzero(policy(rows) == choice)[0]].astype(float) for choice in (0, 1)]
    for _ in range(60):  # the place between two observations at which the choice changes
        middle = (both[0] + both[1]) / 2
        both[int(policy(middle))] = middle
    inputs["observation"] = np.concatenate([rows[:9], both[1][None].astype(np.float32)])
    found = check_parity(policy, {"x": switched(policy, inputs["observation"][9])}, "x", inputs)
    assert found.within_rounding == (9,)
    with pytest.raises(Differs, match="its 'action' at random observation 4, in batches of 1, is"):
        check_parity(policy, {"x": switched(policy, rows[4])}, "random", inputs)
    assert sorted(policy.stored()[0]) == sorted(before)
    for name, array in policy.stored()[0].items():
        np.testing.assert_array_equal(array, before[name])


def test_an_action_that_is_off_by_more_than_a_hundred_thousandth_is_refused() -> None:
    policy = policy_of(KINDS["sac"])
    inputs = sets(policy)["random"]

    def off(by: float) -> Exported:
        return lambda given: policy(given["observation"]) + np.float32(by)

    assert check_parity(policy, {"x": off(1e-5)}, "x", inputs).largest == pytest.approx(
        0.5e-5, rel=0.1
    )  # torques are from -2 to 2
    with pytest.raises(Differs, match="its 'action' at far observation 0"):
        check_parity(policy, {"x": off(1e-3)}, "far", inputs)
    with pytest.raises(Differs, match="its 'action' at far observation 0"):
        check_parity(policy, {"x": off(np.nan)}, "far", inputs)
    with pytest.raises(Differs, match=r"'action' is float64 \[64, 1\], where the agent's is fl"):
        check_parity(policy, {"x": lambda i: off(0)(i).astype(float)}, "far", inputs)


ENSEMBLES: dict[str, tuple[list[str], Rule]] = {
    "mean of three families": (["sac", "ppo of a pendulum", "td3 of a pendulum"], "mean"),
    "vote": (["ppo", "dqn", "ppo"], "vote"),
    "vote on several choices": ([SEVERAL, SEVERAL, SEVERAL], "vote"),
    "product": (["ppo", "ppo"], "product"),
    "product of several choices": ([SEVERAL, SEVERAL], "product"),
    "q_weighted of choices": (["dqn", "dqn", "dqn"], "q_weighted"),
    "q_weighted of matrices": (["sac of matrices"] * 3, "q_weighted"),
}


@pytest.mark.parametrize("name", ENSEMBLES)
def test_onnx_and_numpy_act_as_an_ensemble_does(name: str, tmp_path: Path) -> None:
    kinds, rule = ENSEMBLES[name]
    members = [policy_of(KINDS[kind], seed) for seed, kind in enumerate(kinds)]
    policy = ensemble_of(members, rule)
    exported = exports(policy, tmp_path)
    for kind, inputs in sets(policy).items():
        found = check_parity(policy, exported, kind, inputs)
        assert found.largest < 1e-5 and len(found.within_rounding) < 2
    joined = actions(policy, "random")
    assert any(not np.array_equal(joined, actions(member, "random")) for member in members)


def test_weights_that_several_operations_need_are_written_once(tmp_path: Path) -> None:
    members = [policy_of(KINDS["sac of matrices"], seed) for seed in range(3)]
    sizes = {}
    for count in (2, 3):  # of 2 and of 3 candidates, each valued by all critics
        exports(ensemble_of(members[:count], "q_weighted"), tmp_path)
        sizes[count] = (tmp_path / "policy.h5").stat().st_size / count
    assert sizes[3] < 1.2 * sizes[2]
