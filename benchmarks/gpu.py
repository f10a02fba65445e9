"""Speed of a GPU: ``python benchmarks/gpu.py``; ``--device cpu --quick`` tries the script out.

PPO on the torch-native CartPole, collecting and learning, by batch size; and updates/s of SAC and
TD3, captured as CUDA graphs and kernel by kernel. ``--matmul bfloat16`` measures less precision,
``--deterministic`` kernels that add in one order. ``--tables warp`` steps MuJoCo Warp on the GPU
beside MuJoCo on the cores of the same machine; its kernels are compiled first, in minutes.
``--tables trading`` steps portfolios on the GPU, and on one core.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import cycle, product

import torch
from trading import portfolios

from hpcpod import plugins
from hpcpod.agents.base import Agent
from hpcpod.config.loader import from_mapping
from hpcpod.envs.make import make_env
from hpcpod.envs.mujoco.warp_env import WarpVecEnv
from hpcpod.envs.threads import set_env_threads
from hpcpod.envs.vec_env import Box, EnvSpec, Step, VecEnv, random_actions
from hpcpod.pod.learner import Learner
from hpcpod.pod.numerics import set_numerics
from hpcpod.pod.worker import Worker

SIZES = (1024, 4096, 16384, 65536)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda", help="cuda, cuda:1, ... or cpu")
    parser.add_argument("--matmul", default="highest", help="as pod.matmul (default: highest)")
    parser.add_argument("--deterministic", action="store_true", help="as pod.deterministic")
    parser.add_argument("--quick", action="store_true", help="small sizes, few repetitions")
    parser.add_argument("--tables", nargs="+", choices=TABLES, default=["ppo", "updates"])
    parser.add_argument(
        "--environments", nargs="+", type=int, default=SIZES, help="of ppo, warp, trading"
    )
    options = parser.parse_args()
    device: str = options.device
    name = torch.cuda.get_device_name(device) if device.startswith("cuda") else "the CPU"
    pod = {"matmul": options.matmul, "deterministic": options.deterministic}
    set_numerics(from_mapping({"name": "gpu", "env": {"id": "CartPole-v1"}, "pod": pod}))
    added = ", deterministic" if options.deterministic else ""
    print(f"torch {torch.__version__} on {name}, products: {options.matmul}{added}")
    for table in options.tables:
        TABLES[table](device, (64,) if options.quick else options.environments, options.quick)


def ppo(device: str, sizes: Sequence[int], quick: bool) -> None:
    """Print PPO's steps/s, collecting and learning."""
    print("| PPO on CartPole, environments | steps/s captured | kernel by kernel | ratio |")
    print("|---|---|---|---|")
    for num_envs in sizes:
        repeats = 2 if quick else max(3, min(10, 160_000 // num_envs))
        row(f"{num_envs:,}", partial(ppo_rate, num_envs, device, repeats))


def updates(device: str, sizes: Sequence[int], quick: bool) -> None:
    """Print the updates/s of SAC and TD3."""
    print("| updates/s, batch of 256, 2 x 256 | captured | kernel by kernel | ratio |")
    print("|---|---|---|---|")
    for agent in ("sac", "td3"):
        row(agent, partial(update_rate, agent, device, 2 if quick else 10))


def warp(device: str, sizes: Sequence[int], quick: bool) -> None:
    """Print the steps/s of MuJoCo Warp, and of MuJoCo on every core that this process may use."""
    set_env_threads(cores := len(os.sched_getaffinity(0)))
    print(f"| task, environments | steps/s of Warp | of MuJoCo on {cores} cores | ratio | faults |")
    print("|---|---|---|---|---|")
    for env_id in ("Ant-v5", "HalfCheetah-v5", "Humanoid-v5"):
        for num_envs in sizes:
            simulated = make_env(env_id, num_envs, backend="warp", device=device)
            assert isinstance(simulated, WarpVecEnv)
            ours = stepping_rate(simulated, 2 if quick else 100)
            theirs = stepping_rate(make_env(env_id, num_envs, backend="mujoco"), 2 if quick else 10)
            label, faults = f"{env_id}, {num_envs:,}", sum(simulated.faults)
            print(f"| {label} | {ours:,.0f} | {theirs:,.0f} | {ours / theirs:.1f} | {faults} |")


def trading(device: str, sizes: Sequence[int], quick: bool) -> None:
    """Print the steps/s of portfolios on the GPU, and on one core of the same machine."""
    torch.set_num_threads(1)
    print(f"| stocks, portfolios | steps/s on {device} | on one core | ratio |")
    print("|---|---|---|---|")
    for stocks, num_envs in product((30, 100), sizes):
        rates = []
        for place, repeats in ((device, 300), ("cpu", 10)):
            env, actions = portfolios(stocks, num_envs, place)
            step = partial(in_turns, env, cycle(actions))
            count = 2 if quick else repeats
            rates.append(
                statistics.median(count * num_envs / seconds(step, count, place) for _ in range(3))
            )
        ours, theirs = rates
        print(f"| {stocks}, {num_envs:,} | {ours:,.0f} | {theirs:,.0f} | {ours / theirs:.1f} |")


def in_turns(env: VecEnv, actions: Iterator[torch.Tensor]) -> None:
    """A step by the next of these actions."""
    env.step(next(actions))


def row(label: str, rate: Callable[[], float]) -> None:
    """Measure both ways, in turns, and print their medians."""
    rates: dict[str, list[float]] = {"1": [], "0": []}
    for _ in range(3):
        for capture, found in rates.items():
            os.environ["HPCPOD_CUDA_GRAPHS"] = capture
            found.append(rate())
    captured, plain = (statistics.median(rates[capture]) for capture in ("1", "0"))
    print(f"| {label} | {captured:,.0f} | {plain:,.0f} | {captured / plain:.2f} |", flush=True)


def ppo_rate(num_envs: int, device: str, repeats: int) -> float:
    """Environment steps/s with learning: rollouts of 32 steps, 4 epochs, 4 minibatches, 2 x 64."""
    env = make_env("CartPole-v1", num_envs, backend="torch", device=device)
    cls = plugins.resolve("agents", "ppo")
    config = cls.Config(horizon=32, minibatch_size=8 * num_envs, epochs=4, hidden=64)
    agent: Agent = cls(env.spec, config, 0, device)
    buffer, worker, learner = agent.make_buffer(), Worker(env), Learner(agent)
    worker.reset(torch.arange(num_envs))

    def iterate() -> None:
        worker.collect(agent, buffer, config.horizon, cut=False)
        learner.learn(buffer)

    steps: int = repeats * config.horizon * num_envs
    return steps / seconds(iterate, repeats, device)


def update_rate(algorithm: str, device: str, repeats: int) -> float:
    """Gradient updates/s on the shapes of HalfCheetah, from a full replay, acting left out."""
    cls = plugins.resolve("agents", algorithm)
    spec = EnvSpec(
        "HalfCheetah", Box((17,), -1.0, 1.0), Box((6,), -1.0, 1.0), 64, device, 1000, "none"
    )
    config = cls.Config(learning_starts=0, horizon=1, updates_per_step=1.0, buffer_size=64_000)
    agent: Agent = cls(spec, config, 0, device)
    buffer = agent.make_buffer()
    generator = torch.Generator(device).manual_seed(0)
    no = torch.zeros(64, dtype=torch.bool, device=device)
    for _ in range(200):
        obs, after = torch.randn((2, 64, 17), generator=generator, device=device)
        reward = torch.randn(64, generator=generator, device=device)
        action = agent.act(obs, explore=True)
        buffer.add(obs, action, Step(after, reward, no, no, after, ~no))
    return repeats * 64 / seconds(lambda: agent.update(buffer), repeats, device)


def stepping_rate(env: VecEnv, repeats: int) -> float:
    """Environment steps/s by random actions; environments whose episode ends begin anew."""
    device, count = env.spec.device, env.spec.num_envs
    [action] = random_actions(env.spec, 1, torch.Generator().manual_seed(0))
    env.reset(torch.arange(count))
    return repeats * count / seconds(lambda: env.step(action), repeats, device)


def seconds(work: Callable[[], object], repeats: int, device: str) -> float:
    """Wall time of ``repeats`` runs, after as many that warm up."""
    for _ in range(repeats):
        work()
    finish(device)
    began = time.perf_counter()
    for _ in range(repeats):
        work()
    finish(device)
    return time.perf_counter() - began


def finish(device: str) -> None:
    """Wait until the device has done all that it was given."""
    if device.startswith("cuda"):
        torch.cuda.synchronize(device)


TABLES = {"ppo": ppo, "updates": updates, "warp": warp, "trading": trading}

if __name__ == "__main__":
    main()
