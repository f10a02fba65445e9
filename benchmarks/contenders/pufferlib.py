"""PufferLib: its trainer, over its serial vectorisation or over its own C environment."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import torch
from torch import nn

from contenders import episodes, process, rows
from contenders.process import Task
from contenders.rows import Row

ENDLESS = 10**12


def forget_cuda() -> None:
    """Keep the folder of CUDA's compiler off the path: it would then expect its CUDA kernel."""
    folders = os.environ.get("PATH", os.defpath).split(os.pathsep)
    kept = [folder for folder in folders if not (Path(folder) / "nvcc").exists()]
    os.environ["PATH"] = os.pathsep.join(kept)


class Policy(nn.Module):
    """Separate actor and critic, in the form that the trainer asks for."""

    def __init__(self, row: Row, space: Any, actions: Any) -> None:
        super().__init__()
        inputs = int(space.shape[0])
        self.discrete = hasattr(actions, "n")
        outputs = int(actions.n if self.discrete else actions.shape[0])
        activation = nn.Tanh if row.activation == "tanh" else nn.ReLU

        def mlp(last: int) -> nn.Module:
            return nn.Sequential(
                nn.Linear(inputs, row.hidden),
                activation(),
                nn.Linear(row.hidden, row.hidden),
                activation(),
                nn.Linear(row.hidden, last),
            )

        self.actor, self.critic = mlp(outputs), mlp(1)
        self.log_std = nn.Parameter(torch.zeros(1, outputs))

    def forward_eval(self, observations: Any, state: Any = None) -> tuple[Any, Any]:
        inputs = observations.float()
        logits: Any = self.actor(inputs)
        if not self.discrete:
            std = self.log_std.exp().expand_as(logits)
            logits = torch.distributions.Normal(logits, std)
        return logits, self.critic(inputs)

    def forward(self, observations: Any, state: Any = None) -> tuple[Any, Any]:
        return self.forward_eval(observations, state)


def environments(task: Task) -> Any:
    import pufferlib.emulation
    import pufferlib.vector

    row = task.row
    if "native" in task.words:
        from pufferlib.ocean.cartpole.cartpole import Cartpole

        task.notes.append("its own C environment, of 200 steps")
        return pufferlib.vector.make(
            Cartpole, env_kwargs={"num_envs": row.num_envs}, backend="PufferEnv"
        )

    def make(buf: Any = None, seed: int = 0) -> Any:
        return pufferlib.emulation.GymnasiumPufferEnv(env=episodes.make(task), buf=buf, seed=seed)

    return pufferlib.vector.make(make, num_envs=row.num_envs, backend="Serial", seed=task.seed)


def settings(row: Row, seed: int, folder: str) -> dict[str, Any]:
    """Of the trainer: plain PPO, which its V-trace and its priorities contain."""
    return {
        "env": row.env,
        "seed": seed,
        "device": "cpu",
        "torch_deterministic": True,
        "cpu_offload": False,
        "precision": "float32",
        "compile": False,
        "use_rnn": False,
        "optimizer": "adam",
        "learning_rate": row.learning_rate,
        "anneal_lr": False,
        "adam_beta1": 0.9,
        "adam_beta2": 0.999,
        "adam_eps": 1e-8,
        "total_timesteps": ENDLESS,
        "batch_size": row.rollout,
        "bptt_horizon": row.horizon,
        "minibatch_size": row.batch,
        "max_minibatch_size": row.batch,
        "update_epochs": row.epochs,
        "gamma": rows.GAMMA,
        "gae_lambda": rows.GAE_LAMBDA,
        "clip_coef": rows.CLIP,
        "vf_clip_coef": 1e9,
        "vf_coef": rows.VALUE_COEF,
        "ent_coef": 0.0,
        "max_grad_norm": rows.MAX_GRAD_NORM,
        "vtrace_rho_clip": 1.0,
        "vtrace_c_clip": 1.0,
        "prio_alpha": 0.0,
        "prio_beta0": 1.0,
        "data_dir": folder,
        "checkpoint_interval": ENDLESS,
    }


def train(task: Task) -> None:
    forget_cuda()
    from pufferlib.pufferl import PuffeRL

    class Quiet(PuffeRL):  # type: ignore[misc]
        def print_dashboard(self, *args: Any, **kwargs: Any) -> None:
            pass

    row = task.row
    torch.manual_seed(task.seed)
    vecenv = environments(task)
    policy = Policy(row, vecenv.single_observation_space, vecenv.single_action_space)
    with tempfile.TemporaryDirectory() as folder:
        trainer = Quiet(settings(row, task.seed, folder), vecenv, policy)
        # It sets "high" itself, which rounds as "medium" does on some processors.
        precision = "medium" if "medium" in task.words else "highest"
        torch.set_float32_matmul_precision(precision)
        task.meter.begin()
        try:
            while True:
                trainer.evaluate()
                trainer.train()
                task.round_ends(trainer.global_step)
        finally:
            trainer.utilization.stop()


if __name__ == "__main__":
    process.main(train, "pufferlib")
