"""rsl_rl on a task of Isaac Lab as a program of a run: copy this file, and change it.

Written from the interfaces of Isaac Lab's wrapper, without a simulator: its tests have fakes. All
but `make` was run with rsl_rl 5.5.1. For mjlab, whose runner is rsl_rl's, change `make`. A step is
an iteration of the runner. Episodes can't be seeded one by one, so a score and its error are
reported.
"""

import copy
import sys

import torch
from rsl_rl.runners import OnPolicyRunner

import hpcpod

EVALUATION_STEPS = 1000
"""Of each environment, at most, until its first episode has ended."""


def make(task, num_envs, device):
    """The environment, and the runner's configuration as a dictionary."""
    import gymnasium
    from isaaclab.app import AppLauncher

    AppLauncher(headless=True)  # before anything else of Isaac Lab is imported
    import isaaclab_tasks  # noqa: F401 (registers tasks)
    from isaaclab_rl.rsl_rl import RslRlVecEnvWrapper
    from isaaclab_tasks.utils import load_cfg_from_registry, parse_env_cfg

    config = parse_env_cfg(task, device=device, num_envs=num_envs)
    env = RslRlVecEnvWrapper(gymnasium.make(task, cfg=config))
    return env, load_cfg_from_registry(task, "rsl_rl_cfg_entry_point").to_dict()


def observed(env):
    """Observations; older versions give more beside them."""
    obs = env.get_observations()
    return obs[0] if isinstance(obs, tuple) else obs


def evaluate(env, policy):
    """The return of each environment's first episode [num_envs]."""
    env.reset()
    obs = observed(env)
    totals = torch.zeros(env.num_envs, device=env.device)
    over = torch.zeros(env.num_envs, dtype=torch.bool, device=env.device)
    with torch.inference_mode():
        for _ in range(EVALUATION_STEPS):
            obs, rewards, dones, _ = env.step(policy(obs))
            totals += torch.where(over, 0.0, rewards)
            over |= dones.bool()
            if over.all():
                break
    return totals


def play(pod, env, config):
    torch.manual_seed(pod.seed)
    config = copy.deepcopy(config)  # older runners take words out of it
    algorithm = config["algorithm"] | pod.hyperparameters
    runner = OnPolicyRunner(env, config | {"algorithm": algorithm}, None, env.device)
    if pod.checkpoint:
        runner.load(str(pod.checkpoint / "model.pt"))
        for group in runner.alg.optimizer.param_groups:  # the load brings the parent's
            group["lr"] = algorithm["learning_rate"]
    iterations = 0
    while pod.train_steps_left and not pod.should_stop:
        runner.learn(num_learning_iterations=1)
        iterations += 1
        pod.progress(steps=iterations)
    if pod.mode == "train":
        runner.save(str(pod.save_to / "model.pt"))
        if pod.should_stop:  # the evaluation may take longer than is left
            pod.saved()
    totals = evaluate(env, runner.get_inference_policy(device=env.device))
    error = totals.std().item() / len(totals) ** 0.5
    pod.report(score=totals.mean().item(), error=error, episodes=len(totals), steps=iterations)


if __name__ == "__main__":
    task, num_envs, device = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    env, config = make(task, num_envs, device)  # once: the simulator is slow to start
    for pod in hpcpod.sessions(steps=100, learning_rate=1e-3, entropy_coef=0.005):
        play(pod, env, config)
