"""PPO of rl_games as a program of a run: copy this file, and change it.

The configuration names the environment and whatever `CONFIG` has: horizons, clips, coefficients.
Where rl_games lives in a virtual environment of its own, its `python` is the command's first word.
"""

import contextlib
import tempfile

import gymnasium
import numpy as np
import torch
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from rl_games.common.algo_observer import AlgoObserver
from rl_games.common.ivecenv import IVecEnv
from rl_games.torch_runner import Runner

import hpcpod

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
CONFIG = {
    "learning_rate": 1e-3, "gamma": 0.99, "tau": 0.95, "e_clip": 0.2, "entropy_coef": 0.01,
    "critic_coef": 1.0, "grad_norm": 1.0, "num_actors": 16, "horizon_length": 32,
    "minibatch_size": 128, "mini_epochs": 4, "clip_value": True, "truncate_grads": True,
    "normalize_advantage": True, "normalize_input": True, "normalize_value": True,
    "lr_schedule": None, "bounds_loss_coef": 1e-4, "reward_shaper": {"scale_value": 1.0},
}  # fmt: skip


class Batch(IVecEnv):
    """Environments of gymnasium as rl_games steps them."""

    def __init__(self, env_id, count, seed):
        make = [lambda: gymnasium.make(env_id)] * count
        self.envs = SyncVectorEnv(make, autoreset_mode=AutoresetMode.SAME_STEP)
        self._seed = seed

    def reset(self):
        return self.envs.reset(seed=self._seed)[0]

    def step(self, actions):
        obs, rewards, terminated, truncated, _ = self.envs.step(actions)
        return obs, rewards, (terminated | truncated).astype(np.uint8), {"time_outs": truncated}

    def get_env_info(self):
        spaces = self.envs.single_observation_space, self.envs.single_action_space
        return {"observation_space": spaces[0], "action_space": spaces[1]}


class Enough(Exception):
    """Ends training behind an epoch."""


class Report(AlgoObserver):
    """Tells hpcpod of each epoch, and ends training where it should stop."""

    def __init__(self, pod):
        super().__init__()
        self.pod, self.steps = pod, 0

    def after_init(self, agent):
        self.agent, self.start = agent, None

    def after_print_stats(self, frame, epoch, seconds):  # rl_games calls it twice an epoch
        if frame - self.start > self.steps:
            self.steps = frame - self.start
            rewards = self.agent.game_rewards
            known = {"return": rewards.get_mean()[0].item()} if rewards.current_size else {}
            self.pod.progress(steps=self.steps, **known)
        if not self.pod.train_steps_left or self.pod.should_stop:
            raise Enough


def make_agent(given, seed, env, report, folder):
    units = given.pop("width")
    config = {
        **CONFIG, **given, "name": "agent", "env_name": "gymnasium", "device": DEVICE,
        "vec_env": env, "env_info": env.get_env_info(), "print_stats": False,
        "train_dir": folder, "full_experiment_name": "log", "save_best_after": 10**9,
    }  # fmt: skip
    discrete = isinstance(config["env_info"]["action_space"], gymnasium.spaces.Discrete)
    kind, model = ("a2c_discrete", "discrete_a2c")
    if not discrete:
        kind, model = ("a2c_continuous", "continuous_a2c_logstd")
    none = {"name": "default"}
    normal = {
        "mu_activation": "None", "sigma_activation": "None", "mu_init": none,
        "sigma_init": {"name": "const_initializer", "val": 0}, "fixed_sigma": True,
    }  # fmt: skip
    network = {
        "name": "actor_critic", "separate": True,
        "space": {"discrete": {}} if discrete else {"continuous": normal},
        "mlp": {"units": [units, units], "activation": "elu", "initializer": none,
                "regularizer": {"name": "None"}},
    }  # fmt: skip
    runner = Runner(report)
    runner.load_config({
        "seed": seed, "torch_threads": 1, "algo": {"name": kind}, "model": {"name": model},
        "network": network, "config": config,
    })  # fmt: skip
    return runner.algo_factory.create(kind, base_name="run", params=runner.params)


def evaluate(agent, env_id, seeds):
    """The return of the first episode of each seed."""
    env = Batch(env_id, len(seeds), list(seeds))
    obs, over, totals = env.reset(), np.zeros(len(seeds), bool), np.zeros(len(seeds))
    agent.set_eval()
    while not over.all():
        seen = agent.obs_to_tensors(obs)["obs"]
        with torch.no_grad():
            told = agent.model(
                {"is_train": False, "prev_actions": None, "obs": seen, "rnn_states": None}
            )
        best = told["mus"] if "mus" in told else told["logits"].argmax(1)
        obs, rewards, dones, _ = env.step(agent.preprocess_actions(best))
        totals += np.where(over, 0, rewards)
        over |= dones.astype(bool)
    env.envs.close()
    return totals


def play(pod, folder):
    given = dict(pod.hyperparameters)
    env_id = given.pop("env")
    seed = pod.seed % 2**32  # of numpy's
    env = Batch(env_id, given.get("num_actors", CONFIG["num_actors"]), seed)
    report = Report(pod)
    agent = make_agent(given, seed, env, report, folder)
    if pod.checkpoint:
        agent.restore(str(pod.checkpoint / "agent.pth"))
        agent.update_lr(agent.last_lr)  # the load brings the parent's
    report.start = agent.frame
    if pod.train_steps_left and not pod.should_stop:
        with contextlib.suppress(Enough):
            agent.train()
    if pod.mode == "train":
        agent.save(str(pod.save_to / "agent"))  # rl_games adds .pth
        if pod.should_stop:  # the evaluation may take longer than is left
            pod.saved()
    returns = evaluate(agent, env_id, pod.panel_seeds)
    pod.report(returns=returns, steps=report.steps)
    env.envs.close()
    agent.writer.close()


if __name__ == "__main__":
    for pod in hpcpod.sessions(env="CartPole-v1", width=64, **CONFIG):
        with tempfile.TemporaryDirectory() as folder:
            play(pod, folder)
