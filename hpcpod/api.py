"""The Python door: launch a run, train one agent, load a policy, make an environment."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hpcpod import plugins
from hpcpod.config.loading import from_mapping
from hpcpod.config.schema import RunConfig
from hpcpod.config.space import Scalar
from hpcpod.errors import ConfigError, UserError
from hpcpod.launching import create_run, start
from hpcpod.preparing import Config, read_config, resolve, resolve_task, source_of
from hpcpod.results import Run, open_run, runs_home
from hpcpod.tournament.mutation import unmutated

if TYPE_CHECKING:
    from hpcpod.envs.vec_env import VecEnv
    from hpcpod.pod.policy import Policy
    from hpcpod.pod.vanilla import Training


def launch(
    config: Config,
    *,
    cluster: str | None = None,
    runs: str | Path | None = None,
    **overrides: Any,
) -> Run:
    """Start a tournament and return at once.

    Args:
        config: the path of a YAML file, a mapping, or a ``RunConfig``.
        cluster: ``local`` or ``slurm``; overrides ``cluster.launcher``.
        runs: the folder that holds runs; default ``$HPCPOD_RUNS``, else ``runs``.
        overrides: sections or keys of the configuration, such as ``seed=1`` or
            ``stop={"minutes": 10}``; mappings are merged into what the file says.

    Returns:
        The run. On this machine it trains in processes that end with the calling one; on
        Slurm its jobs are submitted.

    Raises:
        UserError: the configuration has problems, the run exists, the scheduler refuses.
    """
    resolved = resolve(read_config(config, cluster, overrides), source=source_of(config))
    folder = create_run(resolved, Path(runs) if runs is not None else runs_home())
    start(folder, resolved.config)
    return Run(folder)


def train(
    agent: str = "ppo",
    env: str = "CartPole-v1",
    *,
    env_steps: int,
    seed: int = 0,
    save_to: str | Path | None = None,
    **hyperparameters: Scalar,
) -> Training:
    """Train one agent with no tournament; return its policy and its learning curve.

    Args:
        agent: ``ppo``, ``dqn``, or the path of an agent class.
        env: a gymnasium id or the path of an environment class.
        env_steps: environment steps to train, over all environments of the batch.
        seed: of everything random.
        save_to: a file for the policy, which ``load_policy`` reads.
        hyperparameters: of the agent; its defaults stand where nothing is given.

    Raises:
        UserError: an unknown name, a value that can't be, an agent that can't act there.
    """
    config = from_mapping(
        {
            "name": "train",
            "seed": seed,
            "env": {"id": env},
            "population": {"algorithms": {agent: 1}, "pods": {"min": 1, "max": 1}},
            "agents": {agent: hyperparameters} if hyperparameters else {},
        }
    )
    return train_config(config, env_steps=env_steps, save_to=save_to)


def train_config(
    config: RunConfig,
    *,
    env_steps: int | None = None,
    save_to: str | Path | None = None,
    on_progress: Callable[[Any], None] = lambda progress: None,
    source: str = "the configuration",
) -> Training:
    """Train the first algorithm of a configuration, with no tournament.

    A hyperparameter that is a range takes the agent's default, or the range's middle if the
    default is outside.

    Raises:
        UserError: the configuration has problems, or says nowhere how long to train.
    """
    steps = env_steps
    if steps is None:
        steps = config.stop.env_steps or _steps_of_rounds(config)
    if steps is None:
        raise ConfigError(source, ["nothing says how long to train: give env_steps"])
    resolved = resolve_task(config, source=source)
    space = resolved.algorithms[next(iter(config.population.algorithms))]
    work = plugins.load("hpcpod.pod.vanilla:train")
    training: Training = work(
        config,
        space,
        unmutated(space),
        env_steps=steps,
        save_to=Path(save_to) if save_to is not None else None,
        on_progress=on_progress,
    )
    return training


def _steps_of_rounds(config: RunConfig) -> int | None:
    return config.stop.rounds * config.round.env_steps if config.stop.rounds else None


def load_policy(source: str | Path | Run) -> Policy:
    """The best policy of a run, or the one in a checkpoint file, as a function.

    Args:
        source: a ``Run``, a run's folder or name, or a ``.h5`` file.

    Returns:
        A callable on numpy observations; it gives the action for the environment.

    Raises:
        UserError: there is nothing there, or the run has no policy yet.
    """
    path = source
    if not isinstance(path, Run) and not Path(path).is_file():
        path = open_run(path)
    if isinstance(path, Run):
        best = path.best()
        if best is None:
            raise UserError(f"{path.name} has no policy yet: no round was reported")
        path = best.checkpoint
    policy: Policy = plugins.load("hpcpod.pod.policy:load_policy_file")(Path(path))
    return policy


def make_env(
    id: str | Callable[..., Any],
    num_envs: int = 1,
    backend: str = "auto",
    device: str = "cpu",
) -> VecEnv:
    """A batched environment: tensors in, tensors out (see ``hpcpod.envs.vec_env.VecEnv``).

    Args:
        id: a gymnasium id, the path of an environment class, or what returns an environment.
        num_envs: environments in the batch.
        backend: ``auto``, a name of the group ``hpcpod.envs``, or the path of a class.
        device: where the tensors live.

    Raises:
        UserError: the environment can't be made.
    """
    env: VecEnv = plugins.load("hpcpod.envs.make:make_env")(id, num_envs, backend, device)
    return env
