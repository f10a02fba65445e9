"""skrl: its agents under its sequential trainer, timed after each interaction."""

from __future__ import annotations

from typing import Any

import gymnasium
from gymnasium.vector import AutoresetMode
from gymnasium.wrappers.vector import RecordEpisodeStatistics
from skrl.agents.torch.dqn import DQN, DQN_CFG
from skrl.agents.torch.ppo import PPO, PPO_CFG
from skrl.agents.torch.sac import SAC, SAC_CFG
from skrl.agents.torch.td3 import TD3, TD3_CFG
from skrl.envs.wrappers.torch import wrap_env
from skrl.memories.torch import RandomMemory
from skrl.resources.noises.torch import GaussianNoise
from skrl.trainers.torch import SequentialTrainer
from skrl.utils import set_seed
from skrl.utils.model_instantiators.torch import (
    categorical_model,
    deterministic_model,
    gaussian_model,
)

from contenders import process, rows
from contenders.process import Task
from contenders.rows import Row

STEPS = 100_000_000
QUIET = {"write_interval": 0, "checkpoint_interval": 0}


def env_of(task: Task) -> Any:
    row = task.row
    if row.num_envs == 1:  # its trainer resets a single environment itself
        return gymnasium.make(row.env)
    env: Any = gymnasium.make_vec(
        row.env,
        row.num_envs,
        vectorization_mode="async" if "processes" in task.words else "sync",
        vector_kwargs={"autoreset_mode": AutoresetMode.SAME_STEP},
    )
    return RecordEpisodeStatistics(env) if row.threshold is not None else env


def models_of(row: Row, env: Any) -> dict[str, Any]:
    """Separate networks of two hidden layers for each role that the algorithm has."""

    def net(inputs: str) -> list[dict[str, Any]]:
        layers = [row.hidden, row.hidden]
        return [{"name": "net", "input": inputs, "layers": layers, "activations": row.activation}]

    spaces = {"observation_space": env.observation_space, "action_space": env.action_space}
    equal = {**spaces, "device": "cpu"}
    alone = net("OBSERVATIONS")
    if row.algorithm == "dqn":
        return {
            name: deterministic_model(**equal, network=alone, output="ACTIONS")
            for name in ("q_network", "target_q_network")
        }
    if row.algorithm == "ppo":
        discrete = isinstance(env.action_space, gymnasium.spaces.Discrete)
        policy = categorical_model if discrete else gaussian_model
        return {
            "policy": policy(**equal, network=alone, output="ACTIONS"),
            "value": deterministic_model(**equal, network=alone, output="ONE"),
        }
    critics = ["critic_1", "critic_2", "target_critic_1", "target_critic_2"]
    pairs = net("concatenate([OBSERVATIONS, ACTIONS])")
    models = {n: deterministic_model(**equal, network=pairs, output="ONE") for n in critics}
    if row.algorithm == "sac":
        return models | {
            "policy": gaussian_model(**equal, clip_actions=True, network=alone, output="ACTIONS")
        }
    bound = {**equal, "clip_actions": True, "network": alone, "output": "tanh(ACTIONS)"}
    return models | {n: deterministic_model(**bound) for n in ("policy", "target_policy")}


def agent_of(task: Task, env: Any) -> Any:
    """The agent with the row's settings, which tells the meter of every round."""
    row = task.row
    kind: Any = {"ppo": PPO, "sac": SAC, "td3": TD3, "dqn": DQN}[row.algorithm]
    configs = {"ppo": PPO_CFG, "sac": SAC_CFG, "td3": TD3_CFG, "dqn": DQN_CFG}
    given: dict[str, Any] = {"discount_factor": rows.GAMMA, "learning_rate": row.learning_rate}
    if row.algorithm == "ppo":
        given |= {
            "rollouts": row.horizon,
            "learning_epochs": row.epochs,
            "mini_batches": row.rollout // row.batch,
            "gae_lambda": rows.GAE_LAMBDA,
            "ratio_clip": rows.CLIP,
            "value_clip": 0.0,
            "value_loss_scale": rows.VALUE_COEF,
            "grad_norm_clip": rows.MAX_GRAD_NORM,
        }
    else:
        start = rows.LEARNING_STARTS
        given |= {"batch_size": row.batch, "random_timesteps": start, "learning_starts": start}
    if row.algorithm in ("sac", "td3"):
        given["polyak"] = rows.TAU
    if row.algorithm == "td3":
        noise = {"exploration_noise": 0.1, "smooth_regularization_noise": 0.2}
        for name, std in noise.items():
            given |= {name: GaussianNoise, f"{name}_kwargs": {"mean": 0.0, "std": std}}
    if row.algorithm == "dqn":
        given |= {
            "update_interval": row.rollout // row.updates,  # one by one
            "target_update_interval": rows.TARGET_STEPS,
            "polyak": 1.0,
            "exploration_scheduler": _epsilon,
        }

    class Timed(kind):  # type: ignore[misc]
        def post_interaction(self, *, timestep: int, timesteps: int) -> None:
            super().post_interaction(timestep=timestep, timesteps=timesteps)
            if (timestep + 1) % row.horizon == 0:
                last = list(recorder.return_queue)[-20:] if recorder is not None else None
                task.round_ends((timestep + 1) * row.num_envs, last)

    recorder = env._env if row.threshold is not None else None  # below skrl's own wrapper
    memory = row.horizon if row.epochs else rows.BUFFER
    return Timed(
        models=models_of(row, env),
        memory=RandomMemory(memory_size=memory, num_envs=row.num_envs, device="cpu"),
        observation_space=env.observation_space,
        action_space=env.action_space,
        device="cpu",
        cfg=configs[row.algorithm](**given, experiment=QUIET),
    )


def _epsilon(timestep: int, timesteps: int) -> float:
    return max(rows.EPSILON_END, 1.0 - timestep / rows.EPSILON_STEPS)


def train(task: Task) -> None:
    set_seed(task.seed)
    env = wrap_env(env_of(task), verbose=False)
    agent = agent_of(task, env)
    settings = {"timesteps": STEPS, "headless": True, "disable_progressbar": True}
    trainer = SequentialTrainer(cfg=settings, env=env, agents=agent)
    task.meter.begin()
    trainer.train()


if __name__ == "__main__":
    process.main(train, "skrl")
