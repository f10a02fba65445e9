"""PPO, by hand."""

from __future__ import annotations

import math

import pytest
import torch

import hpcpod
from hpcpod.agents import ppo
from hpcpod.agents.a2c import A2C, A2CConfig
from hpcpod.agents.base import Buffer
from hpcpod.agents.distributions import Categorical, Gaussian, MultiCategorical
from hpcpod.agents.networks import linear
from hpcpod.agents.normalizer import PopArt
from hpcpod.agents.ppo import PPO, PPOConfig
from hpcpod.agents.ppo_loss import gae
from hpcpod.agents.state import under
from hpcpod.envs.gymnasium import PreprocessVecEnv
from hpcpod.envs.vec_env import Box, Discrete, MultiDiscrete, Space
from tests.agents.training import evaluate, iterate, row, spec


def test_truncation_bootstraps_but_termination_does_not() -> None:
    # V = 10 everywhere, r = 1, γ = 0.9: one step is worth 1 + 0.9 · 10 = 10, as the critic says.
    rollout = {
        "reward": torch.ones(3, 2),
        "terminated": torch.tensor([[False, False], [False, True], [False, False]]),
        "truncated": torch.tensor([[False, False], [True, False], [False, False]]),
    }
    advantage = gae(rollout, torch.full((3, 2), 10.0), torch.full((3, 2), 10.0), 0.9, 0.5)
    # The one that terminates is worth 1 instead of 10 at its end: δ = -9, and γλ of it before.
    assert torch.allclose(advantage[:, 0], torch.zeros(3), atol=1e-5)
    assert torch.allclose(advantage[:, 1], torch.tensor([-9 * 0.45, -9.0, 0.0]), atol=1e-5)


def test_the_trace_is_the_discounted_sum_of_deltas_up_to_the_end_of_the_episode() -> None:
    rollout = {
        "reward": torch.tensor([[1.0, 1.0], [2.0, 2.0], [3.0, 3.0]]),
        "terminated": torch.tensor([[False, False], [False, False], [True, True]]),
        "truncated": torch.tensor([[False, False], [False, True], [False, False]]),
    }
    value = torch.tensor([[0.5, 0.5], [1.0, 1.0], [1.5, 1.5]])
    after = torch.tensor([[1.0, 1.0], [1.5, 1.5], [99.0, 99.0]])
    # δ = 1 + 0.9·1.0 - 0.5 = 1.4;  2 + 0.9·1.5 - 1 = 2.35;  3 - 1.5 = 1.5;  γλ = 0.72
    # A = 1.4 + 0.72·3.43 = 3.8696;  2.35 + 0.72·1.5 = 3.43;  1.5
    # The other episode is cut after its second step: 1.4 + 0.72·2.35 = 3.092;  2.35;  1.5
    expected = torch.tensor([[3.8696, 3.092], [3.43, 2.35], [1.5, 1.5]])
    assert torch.allclose(gae(rollout, value, after, 0.9, 0.8), expected, atol=1e-5)


def test_the_entropy_bonus_raises_the_entropy() -> None:
    def entropy_after(weight: float) -> float:
        config = PPOConfig(entropy=weight, horizon=32, epochs=30, learning_rate=1e-2)
        agent = PPO(spec(), config, seed=0)
        # A policy that is far from uniform, and no advantage to follow: the rewards are 0.
        agent.load({**agent.state(), "network/policy.bias": torch.tensor([2.0, 0.0])})
        buffer = agent.make_buffer()
        for t in range(32):
            obs, action, step = row(t % 5)
            buffer.add(obs, action, step._replace(reward=torch.zeros(2)))
        return agent.update(buffer)["entropy"]

    # p = 1/(1 + e²) = 0.119: the entropy begins at 0.365 of at most ln 2 = 0.693.
    assert entropy_after(5.0) > entropy_after(0.0) + 0.05


@torch.no_grad()
def test_the_gaussian_by_hand() -> None:
    head = Gaussian((2,), log_std=math.log(0.5))
    log_p, entropy = head.evaluate(torch.tensor([[0.0, 1.0]]), torch.tensor([[0.5, 1.0]]))
    # Per dimension -z²/2 - ln σ - ln √2π: z = 1 and 0, -ln 0.5 = 0.6931, ln √2π = 0.9189.
    assert float(log_p) == pytest.approx(-0.5 + 2 * (0.6931472 - 0.9189385), abs=1e-5)
    assert float(entropy) == pytest.approx(2 * (0.5 + 0.9189385 - 0.6931472), abs=1e-5)
    mode = head.mode(torch.tensor([[0.3, 7.0]]))
    assert mode.tolist() == [[pytest.approx(0.3), 1.0]]


def test_choices_by_hand() -> None:
    logits = torch.tensor([[math.log(1.0), math.log(3.0)]])
    log_p, entropy = Categorical(2).evaluate(logits, torch.tensor([1]))
    assert float(log_p) == pytest.approx(math.log(0.75))
    assert float(entropy) == pytest.approx(-0.25 * math.log(0.25) - 0.75 * math.log(0.75))
    both = torch.cat([logits, torch.zeros(1, 4)], dim=1)
    log_p, _ = MultiCategorical((2, 4)).evaluate(both, torch.tensor([[1, 2]]))
    assert float(log_p) == pytest.approx(math.log(0.75) + math.log(0.25))


@torch.no_grad()
def test_samples_follow_the_probabilities() -> None:
    generator = torch.Generator().manual_seed(0)
    logits = torch.tensor([1.0, 3.0]).log().expand(40_000, 2)
    # σ of the mean is √(0.75·0.25/40000) = 0.0022
    assert float(Categorical(2).sample(logits, generator).float().mean()) == pytest.approx(
        0.75, abs=0.01
    )
    head = Gaussian((1,), log_std=math.log(2.0))
    sample = head.sample(torch.full((40_000, 1), 3.0), generator)
    assert float(sample.mean()) == pytest.approx(3.0, abs=0.05)
    assert float(sample.std()) == pytest.approx(2.0, abs=0.05)


@pytest.mark.parametrize("action", [MultiDiscrete((2, 3)), Box((2, 2), -1.0, 1.0)])
def test_it_acts_and_learns_in_other_action_spaces(action: MultiDiscrete | Box) -> None:
    agent = PPO(spec(action), PPOConfig(horizon=4, value_clip=0.2, target_kl=1e-9), seed=0)
    buffer = agent.make_buffer()
    for t in range(4):
        obs, _, step = row(t)
        chosen = agent.act(obs, explore=True)
        assert chosen.shape == ((2, 2) if isinstance(action, MultiDiscrete) else (2, 2, 2))
        buffer.add(obs, chosen, step)
    metrics = agent.update(buffer)
    assert metrics["stopped_early"] == 1.0
    assert buffer.rows == buffer.oldest == 4


@pytest.mark.parametrize("flag", ["truncated", "terminated"])
def test_the_final_observation_counts_after_a_truncation_only(flag: str) -> None:
    def learn(final: float) -> torch.Tensor:
        agent = PPO(spec(), PPOConfig(horizon=4, epochs=1), seed=0)
        buffer = agent.make_buffer()
        for t in range(4):
            obs, action, step = row(t, **{flag: [t == 1, False]})
            if t == 1:
                step = step._replace(next_obs=torch.stack([step.next_obs[0] + final, step.obs[1]]))
            buffer.add(obs, action, step)
        agent.update(buffer)
        return agent.state()["network/value.weight"]

    assert torch.equal(learn(0.0), learn(0.5)) == (flag == "terminated")


def test_reset_dummies_are_not_learned_from() -> None:
    def learn(poison: float) -> torch.Tensor:
        agent = PPO(spec(), PPOConfig(horizon=4, epochs=1), seed=0)
        buffer = agent.make_buffer()
        for t in range(4):
            dummy = t == 2
            obs, action, step = row(t, terminated=[t == 1, False], valid=[not dummy, True])
            reward = torch.where(step.valid, step.reward, poison)
            buffer.add(obs, action, step._replace(reward=reward))
        agent.update(buffer)
        return agent.state()["network/policy.weight"]

    assert torch.equal(learn(0.0), learn(1e6))


def test_normalised_observations_have_mean_zero_and_variance_one() -> None:
    agent = PPO(spec(), PPOConfig(horizon=50), seed=0)
    seen, buffer = [], agent.make_buffer()
    for update in range(3):
        for t in range(50):
            obs, action, step = row(t * (update + 1))
            seen.append(obs)
            buffer.add(obs, action, step)
        agent.update(buffer)
    everything = torch.cat(seen)
    state = agent.state()
    assert float(state["normalizer/obs/count"]) == 300
    assert torch.allclose(state["normalizer/obs/mean"], everything.mean(0), rtol=1e-4)
    assert torch.allclose(state["normalizer/obs/var"], everything.var(0, correction=0), rtol=1e-4)


def test_the_critic_says_the_same_in_units_of_reward_when_the_scale_moves() -> None:
    scale = PopArt("cpu")
    critic = linear(3, 1, 1.0, torch.Generator().manual_seed(0))
    x = torch.randn(5, 3, generator=torch.Generator().manual_seed(1))
    scale.learn(torch.tensor([4.0, 8.0]), critic)
    before = scale.denormalize(critic(x).squeeze(-1))
    scale.learn(torch.tensor([100.0, 300.0, 20.0]), critic)
    assert torch.allclose(scale.denormalize(critic(x).squeeze(-1)), before, rtol=1e-4)
    # mean of 4, 8, 100, 300, 20: 86.4; variance 12631.04, whose root is 112.388
    returns = torch.tensor([4.0, 8.0, 100.0, 300.0, 20.0])
    assert torch.allclose(scale.normalize(returns), (returns - 86.4) / 112.388, atol=1e-3)
    assert torch.allclose(scale.denormalize(scale.normalize(returns)), returns, rtol=1e-4)


@pytest.mark.parametrize("normalize", [False, True])
def test_large_returns_are_learned_when_they_are_normalised(normalize: bool) -> None:
    # One step is an episode and is worth 1000 in environment 0, 3000 in environment 1.
    config = PPOConfig(normalize_returns=normalize, horizon=32, hidden=16, learning_rate=3e-3)
    agent = PPO(spec(), config, seed=0)
    buffer = agent.make_buffer()
    for _ in range(40):
        for _ in range(32):
            obs, _, step = row(0, terminated=[True, True])
            reward = torch.tensor([1000.0, 3000.0])
            buffer.add(obs, agent.act(obs, explore=True), step._replace(reward=reward))
        agent.update(buffer)
    state = agent.state()
    assert ("normalizer/returns/mean" in state) == normalize
    loss = agent.update(filled(agent, [1000.0, 3000.0]))["value_loss"]
    if normalize:
        assert loss < 0.01  # in units of the variance, 1e6
        assert float(state["normalizer/returns/mean"]) == pytest.approx(2000.0)
    else:
        assert loss > 1e5


def filled(agent: PPO, rewards: list[float]) -> Buffer:
    buffer = agent.make_buffer()
    for _ in range(agent.horizon):
        obs, _, step = row(0, terminated=[True, True])
        buffer.add(obs, agent.act(obs, explore=True), step._replace(reward=torch.tensor(rewards)))
    return buffer


def test_equal_returns_are_not_blown_up_by_their_scale() -> None:
    agent = PPO(spec(), PPOConfig(normalize_returns=True, horizon=32, hidden=16), seed=0)
    for _ in range(8):
        metrics = agent.update(filled(agent, [0.0, 0.0]))
    assert metrics["value_loss"] < 100
    assert max(float(p.detach().abs().max()) for p in agent._network.parameters()) < 100


def test_a_rollout_is_read_a_part_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    def learned() -> dict[str, torch.Tensor]:
        agent = PPO(spec(), PPOConfig(horizon=32, hidden=16), seed=0)
        agent.update(filled(agent, [1.0, -2.0]))
        return agent.state()

    whole = learned()
    monkeypatch.setattr(ppo, "_AT_ONCE", 21)  # seven observations of three numbers
    for name, tensor in learned().items():
        assert torch.allclose(tensor, whole[name], atol=1e-4), name


def test_a_rollout_of_nothing_but_resets_teaches_nothing() -> None:
    agent = PPO(spec(), PPOConfig(horizon=1), seed=0)
    buffer, before = agent.make_buffer(), agent.state()
    obs, action, step = row(0, valid=[False, False])
    buffer.add(obs, action, step)
    assert agent.update(buffer) == {} and buffer.rows == buffer.oldest == 1
    assert all(torch.equal(t, agent.state()[name]) for name, t in before.items())


def test_the_learning_rate_falls_linearly_with_the_steps_and_stays() -> None:
    config = PPOConfig(learning_rate=1e-3, anneal_steps=128, anneal_to=0.1, horizon=32)
    agent = PPO(spec(), config, seed=0)
    rates = []
    for _ in range(4):
        rates.append(agent.learning_rate)
        agent.update(filled(agent, [0.0, 0.0]))
        assert agent._optimizer.learning_rate == rates[-1]
    # 64 steps an update: none, a half, all and more of the way to a tenth
    assert rates == pytest.approx([1e-3, 5.5e-4, 1e-4, 1e-4])
    other = PPO(spec(), config, seed=1)
    other.load(agent.state())
    assert other.learning_rate == pytest.approx(1e-4)
    assert PPO(spec(), PPOConfig(), seed=0).learning_rate == 3e-4


@pytest.mark.parametrize("image", [False, True])
@pytest.mark.parametrize("action", [Discrete(3), MultiDiscrete((2, 3)), Box((2,), -1.0, 1.0)])
def test_all_terms_of_the_loss_together_are_autograds(action: Space, image: bool) -> None:
    config = PPOConfig(
        entropy=0.3, value_clip=0.2, value_coef=0.7, h_term=0.5, clip=0.1, max_grad_norm=1e9
    )
    agent = PPO(spec(action, Box((6, 6), 0, 255, "uint8") if image else None), config, seed=0)
    network, generator = agent._network, torch.Generator().manual_seed(0)
    inputs = torch.randn(40, 3, generator=generator)
    if image:
        inputs = torch.randint(256, (40, 1, 6, 6), generator=generator).to(torch.uint8)
    with torch.no_grad():
        outputs, value = network(network.encoder(inputs))
        chosen = network.head.sample(outputs, generator)
        log_p, _ = network.head.evaluate(outputs, chosen)
    noise = torch.randn(4, 40, generator=generator)
    batch = {
        "inputs": inputs,
        "action": chosen,
        "log_p": log_p + 0.2 * noise[0],
        "value": value + 0.3 * noise[1],
        "advantage": noise[2],
        "target": value + noise[3],
    }
    runs = {
        "runs/inputs": inputs.view(10, 4, *inputs.shape[1:]),
        "runs/action": chosen.view(10, 4, *chosen.shape[1:]),
        "runs/worth": torch.rand(10, 4, generator=generator),
    }
    stream = agent._generator.get_state()
    outputs, values = network(network.encoder(inputs))
    log_p, entropy = network.head.evaluate(outputs, chosen)
    ratio = (log_p - batch["log_p"]).exp()
    advantage = (noise[2] - noise[2].mean()) / noise[2].std()
    surrogate = torch.minimum(ratio * advantage, ratio.clamp(0.9, 1.1) * advantage).mean()
    error = (values - batch["target"]).square()
    near = batch["value"] + (values - batch["value"]).clamp(-0.2, 0.2)
    critic = torch.maximum(error, (near - batch["target"]).square()).mean()
    loss = -surrogate + 0.7 * critic - 0.3 * entropy.mean()
    loss = loss + 0.5 * agent._energy(under("runs", runs), 40)
    weights = dict(network.named_parameters())
    expected = torch.autograd.grad(loss, list(weights.values()))
    agent._generator.set_state(stream)
    (record,) = agent._descend(batch | runs)
    state = agent.state()
    for name, gradient in zip(weights, expected, strict=True):
        first = state[f"optimizer/exp_avg/{name}"]  # 1 - β of the first gradient
        assert torch.allclose(first, 0.1 * gradient, atol=1e-6) and bool(gradient.any()), name
    norm = torch.cat([g.flatten() for g in expected]).norm()
    measured = torch.stack([-surrogate, critic, entropy.mean(), norm]).detach()
    assert torch.allclose(record[[0, 1, 2, 5]], measured, rtol=1e-4)


@pytest.mark.parametrize("normalize", [False, True])
def test_a2c_takes_one_step_along_the_policy_gradient(normalize: bool) -> None:
    config = A2CConfig(
        horizon=4, hidden=8, value_coef=0.0, normalize_obs=False, normalize_returns=normalize,
        normalize_advantage=False, entropy=0.0, learning_rate=1e-3,
    )  # fmt: skip
    agent = A2C(spec(), config, seed=0)
    buffer = filled(agent, [1.0, -2.0])
    rollout = buffer.segment(0, 4)
    obs = rollout["obs"].flatten(0, 1)
    network = agent._network
    weights = {name: p.detach().clone() for name, p in network.named_parameters()}
    outputs, value = network(obs)
    log_p, _ = network.head.evaluate(outputs, rollout["action"].flatten())
    # An episode is one step: A = r - V(s). The gradient is that of -mean(A log π).
    reward = rollout["reward"].flatten()
    scale = reward.std(correction=0) if normalize else 1.0
    advantage = ((reward - value) / scale).detach()
    moving = {n: p for n, p in network.named_parameters() if not n.startswith("value")}
    gradients = torch.autograd.grad(-(advantage * log_p).mean(), list(moving.values()))
    norm = float(torch.stack([g.square().sum() for g in gradients]).sum().sqrt())
    metrics = agent.update(buffer)
    assert metrics["grad_norm"] == pytest.approx(norm, rel=1e-4)
    for (name, p), g in zip(moving.items(), gradients, strict=True):
        steep = g.abs() > 1e-4
        # Adam's first step: the learning rate, downhill
        assert torch.allclose((p - weights[name])[steep], -1e-3 * g[steep].sign(), rtol=0.1)


def test_the_epochs_stop_when_the_policy_has_moved_far_enough() -> None:
    def moved(target_kl: float) -> tuple[float, float]:
        config = PPOConfig(target_kl=target_kl, epochs=50, learning_rate=1e-2, horizon=32)
        agent = PPO(spec(), config, seed=0)
        weight = agent._network.hidden.weights[0]
        before = weight.detach().clone()
        metrics = agent.update(filled(agent, [1.0, -1.0]))
        return metrics["stopped_early"], float((weight.detach() - before).norm())

    stopped, far = moved(0.0)
    early, near = moved(0.01)
    assert (stopped, early) == (0.0, 1.0)
    assert near < far / 2


def test_ppo_balances_cartpole() -> None:
    env = PreprocessVecEnv("CartPole-v1", 8)
    agent = PPO(env.spec, PPOConfig(), seed=0)
    buffer, obs, best = agent.make_buffer(), env.reset(torch.arange(8)), 0.0
    for _ in range(60):
        obs, _ = iterate(agent, env, buffer, obs)
        best = evaluate(agent, "CartPole-v1")
        if best >= 475:
            break
    assert best >= 475


@pytest.mark.slow
def test_ppo_swings_the_pendulum_up() -> None:
    env = PreprocessVecEnv("Pendulum-v1", 4)
    config = PPOConfig(
        gamma=0.9, horizon=1024, minibatch_size=64, epochs=10, normalize_obs=False
    )  # as in configs/classic/pendulum.yaml
    agent = PPO(env.spec, config, seed=0)
    buffer, obs, best = agent.make_buffer(), env.reset(torch.arange(4)), -math.inf
    for _ in range(20):
        obs, _ = iterate(agent, env, buffer, obs)
        best = evaluate(agent, "Pendulum-v1")
        if best >= -200:
            break
    assert best >= -200


@pytest.mark.slow
def test_a2c_balances_cartpole() -> None:
    training = hpcpod.train("a2c", env_steps=80_000, seed=0, learning_rate=3e-3, keep="last")
    assert min(point.mean_return for point in training.curve[-3:]) >= 475
