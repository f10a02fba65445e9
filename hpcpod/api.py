"""The Python door: launch a run, train one agent, load a policy, make an environment."""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hpcpod import plugins
from hpcpod.config.algorithms import resolve_algorithms
from hpcpod.config.loading import from_mapping, load_file
from hpcpod.config.resolved import Resolved
from hpcpod.config.schema import RunConfig
from hpcpod.config.space import Scalar
from hpcpod.errors import ConfigError, HpcpodError, UserError
from hpcpod.orchestrator import launcher_of, submit
from hpcpod.records import Intent
from hpcpod.results import Run, open_run, runs_home
from hpcpod.storage.board import writer_id
from hpcpod.storage.run_folder import RunFolder
from hpcpod.tournament.census import quotas
from hpcpod.tournament.leaderboard import first_board
from hpcpod.tournament.merge import read_board
from hpcpod.tournament.mutation import unmutated
from hpcpod.tournament.rules import Rules

if TYPE_CHECKING:
    from hpcpod.envs.vec_env import VecEnv
    from hpcpod.pod.policy import Policy
    from hpcpod.pod.probe import Footprint
    from hpcpod.pod.vanilla import Training

_BACKGROUND: list[subprocess.Popen[bytes]] = []
"""Coordinators that this process has started: kept, so that they are not reaped too early."""

Config = str | Path | Mapping[str, Any] | RunConfig


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
    resolved = resolve(read_config(config, cluster, overrides))
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
) -> Training:
    """Train the first algorithm of a configuration, with no tournament.

    A hyperparameter that is a range takes the agent's default, or the range's middle if the
    default is outside.

    Raises:
        UserError: the configuration has problems, or says nowhere how long to train.
    """
    steps = env_steps or config.stop.env_steps or _steps_of_rounds(config)
    if steps is None:
        raise ConfigError("train", ["nothing says how long to train: give env_steps"])
    resolved = resolve(config)
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


def read_config(
    config: Config,
    cluster: str | None = None,
    overrides: Mapping[str, Any] | None = None,
    set_options: Sequence[str] = (),
) -> RunConfig:
    """A configuration from wherever it is, with overrides merged in.

    Args:
        config: a file's path, a mapping, or a configuration.
        cluster: the launcher, if it is not to be the configuration's.
        overrides: sections and keys to merge in.
        set_options: ``a.b=c`` strings, for a file.

    Raises:
        ConfigError: says every problem.
    """
    changes = dict(overrides or {})
    if isinstance(config, (str, Path)):
        loaded: Mapping[str, Any] | RunConfig = load_file(config, set_options)
    else:
        loaded = config
    read = from_mapping(loaded, changes, source=str(config) if changes else "the configuration")
    if cluster is not None:
        read = replace(read, cluster=replace(read.cluster, launcher=cluster))
    return read


def resolve(config: RunConfig, *, probe: bool = True) -> Resolved:
    """Check everything that can be checked before anything is made.

    Args:
        config: the configuration.
        probe: make the environment and each agent once. A login node that can't run the
            simulator may go without.

    Raises:
        UserError: says every problem that was found.
    """
    plugins.resolve("launchers", config.cluster.launcher)
    resolved = Resolved(config, resolve_algorithms(config))
    Rules.of(config, resolved.algorithms)
    if probe:
        probe_task(resolved)
    return resolved


def probe_task(resolved: Resolved) -> Mapping[str, Footprint]:
    """Make the environment and each agent once; what a pod of each keeps on the disk.

    Raises:
        ConfigError: the environment can't be made, or an agent can't act in it.
    """
    defaults = {name: unmutated(space) for name, space in resolved.algorithms.items()}
    found: Mapping[str, Footprint] = plugins.load("hpcpod.pod.probe:probe")(
        resolved.config, resolved.algorithms, defaults
    )
    return found


def create_run(resolved: Resolved, runs: Path) -> RunFolder:
    """Make the run folder with its first board: complete, or not at all.

    Raises:
        RunExists: a run of this name is there.
        UserError: the folder can't be written.
    """
    rules = Rules.of(resolved.config, resolved.algorithms)
    board = first_board(rules, time.time())
    document = {**resolved.document(), "source": source_state()}
    folder = RunFolder.create(runs / resolved.config.name, document)
    try:
        folder.board.publish(-1, {}, board.document(), writer_id())
    except BaseException:
        remove_run(folder)
        raise
    return folder


@dataclass(frozen=True)
class Checked:
    """What ``validate`` found out about a configuration without a problem."""

    quotas: Mapping[str, int]
    """Pods of the first generation, by algorithm."""
    footprints: Mapping[str, Footprint]
    """What one pod of each algorithm keeps on the disk."""
    disk: float
    """Bytes that the run will hold at once, at most, by estimate."""


def check(config: RunConfig) -> Checked:
    """Resolve a configuration and estimate what it needs.

    Raises:
        UserError: says every problem.
    """
    resolved = resolve(config, probe=False)
    found = probe_task(resolved)
    share = quotas(config.population)
    # A pod keeps a core per round of its history, its best and the one it is working on; its
    # replay is shared between them but for the rows that were overwritten in between.
    disk = sum(n * (7 * found[name].core + 2 * found[name].replay) for name, n in share.items())
    return Checked(share, found, disk)


def remove_run(folder: RunFolder) -> None:
    """Take back a run that never started."""
    shutil.rmtree(folder.path, ignore_errors=True)


def start(folder: RunFolder, config: RunConfig) -> list[str]:
    """Set a new run going: a process here, or jobs on the cluster; return the jobs' ids.

    Raises:
        LaunchError: the scheduler refused. Then nothing is left, neither jobs nor folder.
    """
    if config.cluster.launcher == "local":
        start_here(folder)
        return []
    launcher = launcher_of(folder)
    jobs: list[str] = []
    try:
        for intent in new_intents(folder, launcher.places):
            jobs += [job for job in [submit(folder, launcher, intent)] if job is not None]
    except HpcpodError:
        launcher.cancel(jobs)
        remove_run(folder)
        raise
    return jobs


def scripts(config: RunConfig, runs: Path) -> list[str]:
    """The sbatch texts of a run as ``launch`` would submit them; nothing is made."""
    launcher: Any = plugins.resolve("launchers", config.cluster.launcher)(
        (runs / config.name).absolute(), config
    )
    if not hasattr(launcher, "script"):
        raise UserError(
            f"the launcher '{config.cluster.launcher}' submits no scripts; add --cluster slurm"
        )
    kinds = Intent(0, "TOKEN", "coordinator"), Intent(1, "TOKEN", "slots", launcher.places)
    return [launcher.script(intent) for intent in kinds]


def write_scripts(folder: RunFolder) -> list[Path]:
    """Write a run's sbatch scripts for a person to submit; each counts once, like a launch's."""
    launcher: Any = launcher_of(folder)
    paths = []
    for intent in new_intents(folder, launcher.places):
        folder.publish_intent(intent)
        path = folder.path / "scripts" / f"{intent.kind}-{intent.number}.sbatch"
        path.parent.mkdir(exist_ok=True)
        path.write_text(launcher.script(intent))
        paths.append(path)
    return paths


def restart(folder: RunFolder) -> list[str]:
    """Submit what a run on a cluster lacks: its coordinator, and slots; the jobs' ids."""
    launcher = launcher_of(folder)
    present = {job.kind for job in launcher.observe().jobs}
    wanted = [i for i in new_intents(folder, launcher.places) if i.kind not in present]
    jobs = []
    for intent in wanted:
        numbered = replace(intent, number=folder.intent_count())
        job = submit(folder, launcher, numbered)
        jobs += [job] if job is not None else []
    return jobs


def new_intents(folder: RunFolder, slots: int) -> list[Intent]:
    """The next two submissions of a run: its coordinator and an array of slots."""
    number = folder.intent_count()
    return [
        Intent(number, secrets.token_hex(8), "coordinator"),
        Intent(number + 1, secrets.token_hex(8), "slots", slots, read_board(folder).reports),
    ]


def start_here(folder: RunFolder) -> None:
    """Run slots and coordinator in the background; they end when this process does."""
    (folder.path / "logs").mkdir(exist_ok=True)
    with (folder.path / "logs" / "coordinator.log").open("ab") as log:
        process = subprocess.Popen(
            [
                sys.executable, "-m", "hpcpod.orchestrator", str(folder.path),
                "--parent", str(os.getpid()),
            ],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )  # fmt: skip
    _BACKGROUND.append(process)


def source_state() -> str:
    """``git describe`` of the working directory, or empty outside of a checkout."""
    try:
        done = subprocess.run(
            ["git", "describe", "--always", "--dirty", "--tags"],
            capture_output=True, text=True, timeout=5, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
