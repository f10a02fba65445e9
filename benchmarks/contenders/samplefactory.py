"""Sample Factory: its runner, in one process or in several, observed after each training step."""

from __future__ import annotations

import tempfile

from sample_factory.algo.runners.runner import AlgoObserver, Runner
from sample_factory.cfg.arguments import parse_full_cfg, parse_sf_args
from sample_factory.envs.env_utils import register_env
from sample_factory.train import make_runner

from contenders import episodes, process, rows
from contenders.process import Finished, Task

ENDLESS = 10**9


class Observer(AlgoObserver):  # type: ignore[misc]
    """Tells the meter of the environment steps that were learned from."""

    def __init__(self, task: Task) -> None:
        self._task = task
        self._steps = 0

    def on_start(self, runner: Runner) -> None:
        self._task.meter.begin()

    def on_training_step(self, runner: Runner, training_iteration_since_resume: int) -> None:
        steps = sum(runner.env_steps.values())
        if steps == self._steps:
            return
        self._steps = steps
        try:
            self._task.round_ends(steps)
        except Finished:
            runner.cfg.train_for_env_steps = 0  # it looks at this next


def arguments(task: Task, folder: str) -> dict[str, object]:
    """Of its command line."""
    row = task.row
    apart = "processes" in task.words
    return {
        "env": row.env,
        "experiment": "peer",
        "train_dir": folder,
        "device": "cpu",
        "seed": task.seed,
        "serial_mode": not apart,
        "async_rl": apart,
        "num_workers": 2 if apart else 1,
        "num_envs_per_worker": row.num_envs // 2 if apart else row.num_envs,
        "worker_num_splits": 2 if apart else 1,
        "batch_size": row.batch,
        "rollout": row.horizon,
        "num_batches_per_epoch": row.rollout // row.batch,
        "num_epochs": row.epochs,
        "shuffle_minibatches": True,
        "gamma": rows.GAMMA,
        "gae_lambda": rows.GAE_LAMBDA,
        "ppo_clip_ratio": rows.CLIP,
        "ppo_clip_value": 1e9,
        "value_loss_coeff": rows.VALUE_COEF,
        "exploration_loss_coeff": 0.0,
        "kl_loss_coeff": 0.0,
        "value_bootstrap": True,
        "with_vtrace": False,
        "max_grad_norm": rows.MAX_GRAD_NORM,
        "learning_rate": row.learning_rate,
        "normalize_input": False,
        "normalize_returns": False,
        "use_rnn": False,
        "recurrence": 1,
        "nonlinearity": row.activation,
        "actor_critic_share_weights": False,
        "adaptive_stddev": False,
        "set_workers_cpu_affinity": False,
        "decorrelate_envs_on_one_worker": False,
        "train_for_env_steps": ENDLESS,
        "save_every_sec": ENDLESS,
        "experiment_summaries_interval": ENDLESS,
        "log_to_file": False,
    }


def train(task: Task) -> None:
    row = task.row
    register_env(row.env, episodes.Maker(task))
    with tempfile.TemporaryDirectory() as folder:
        line = [f"--{name}={value}" for name, value in arguments(task, folder).items()]
        line += ["--encoder_mlp_layers", str(row.hidden), str(row.hidden)]
        parser, _ = parse_sf_args(argv=line)
        _, runner = make_runner(parse_full_cfg(parser, line))
        runner.register_observer(Observer(task))
        runner.init()
        runner.run()


if __name__ == "__main__":
    process.main(train, "sample-factory")
