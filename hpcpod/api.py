"""The Python interface: launch a run, train one agent, load a policy, make an environment."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hpcpod import plugins
from hpcpod.config.arguments import door, numbers
from hpcpod.config.decoder import build
from hpcpod.config.limits import hints
from hpcpod.config.loader import from_mapping
from hpcpod.config.schema import EnvConfig, PodConfig, RoundConfig, RunConfig
from hpcpod.config.space import Scalar
from hpcpod.errors import ConfigError, UserError
from hpcpod.records.records import Keep
from hpcpod.run.auto import Auto
from hpcpod.run.best_policy import kept
from hpcpod.run.launch import create_run, start
from hpcpod.run.preflight import Config, check, read_config, resolve_task, site_for, source_of
from hpcpod.run.progress_line import progress_line, progress_text
from hpcpod.run.remarks import of_environment, remarks
from hpcpod.run.run import Run, open_run, runs_home
from hpcpod.run.start_from import asked_for
from hpcpod.storage.policy_blobs import Rule

if TYPE_CHECKING:
    from gymnasium.vector import VectorEnv

    from hpcpod.envs.gymnasium_make import Wrapper
    from hpcpod.envs.vec_env import VecEnv
    from hpcpod.pod.ipc.messages import Progress
    from hpcpod.pod.policy import Policy
    from hpcpod.pod.standalone import Training

log = logging.getLogger(__name__)


_ENV = hints(EnvConfig)


@door(
    config=Any, cluster=str | None, runs=str | None, site=str | None, start_from=Any,
    detach=bool | None, progress=bool | None,
)  # fmt: skip
def launch(
    config: Config,
    *,
    cluster: str | None = None,
    runs: str | Path | None = None,
    site: str | Path | None = None,
    start_from: str | Path | Run | None = None,
    detach: bool | None = None,
    progress: bool | None = None,
    **overrides: Any,
) -> Run:
    """Start a tournament and return at once.

    Args:
        config: the path of a YAML file, a mapping, or a ``RunConfig``.
        cluster: ``local`` or ``slurm``; overrides ``cluster.launcher``.
        runs: the folder that holds runs; default ``$HPCPOD_RUNS``, else ``runs``.
        site: a site's file, laid under a file or a mapping; default ``$HPCPOD_SITE``, if it is not
            for this machine, else its own ``cluster.site``.
        start_from: another run, whose best policy the first pods start from; a text may name a pod,
            too: ``"demo:p0003"``. It sets ``population.start_from``.
        detach: on this machine, train in processes that go on when the calling one ends. False:
            they end with it, and ``Run.resume`` goes on. None: so they do, and this says it.
        progress: show on standard error how far this is, and then ``Run.wait``. None: in a terminal
            or a notebook.
        overrides: sections or keys of the configuration, such as ``seed=1`` or
            ``stop={"minutes": 10}``; mappings are merged into what the file says.

    Returns:
        The run. On this machine it trains in processes of its own; on Slurm its jobs are
        submitted.

    Raises:
        UserError: the configuration has problems, the run exists, the scheduler refuses.
    """
    auto = Auto(source=source_of(config), tell=log.info)
    source = start_from.path if isinstance(start_from, Run) else start_from
    changes = asked_for(source, overrides)
    read = read_config(config, cluster, changes, site=site_for(site, cluster), choose=auto)
    with progress_text(progress) as show:
        show(f"{read.name}: its environment and its agents are made once, to see that they can be")
        checked = check(read, source=source_of(config))
        for remark in checked.remarks:
            log.warning("%s", remark)
        show(f"{read.name}: starts")
        folder = create_run(checked.resolved, runs_home(runs), because=auto.because)
        start(folder, checked.resolved.config, detach=bool(detach))
    run = Run(folder, progress)
    if run.local and detach is None:  # a script that ended took its run along without a word
        log.warning(
            "%s ends with this process: run.wait() waits for its end; launch(..., detach=True) lets"
            " it go on alone, detach=False is silent",
            run.name,
        )
    return run


@door(
    agent=str, save_to=str | None, overwrite=bool, keep=Keep,
    device=Any, progress=bool | None,
)  # fmt: skip
def train(  # noqa: PLR0913 (the options of a training, by name)
    agent: str = "ppo",
    env: str = "CartPole-v1",
    *,
    env_steps: int,
    seed: int = 0,
    keep: Keep = "best",
    save_to: str | Path | None = None,
    overwrite: bool = False,
    num_envs: int = EnvConfig.num_envs,
    episodes: int = RoundConfig.episodes,
    device: str = PodConfig.device,
    wrappers: Sequence[Wrapper] = (),
    env_kwargs: Mapping[str, object] | None = None,
    max_episode_steps: int | None = None,
    progress: bool | None = None,
    on_progress: Callable[[Progress], None] | None = None,
    **hyperparameters: Scalar,
) -> Training:
    """Train one agent with no tournament; return a policy and the learning curve.

    The agent is scored about ten times on its way; its best policy is scored again, on 128 episodes
    that did not choose it: ``returns``.

    Args:
        agent: ``ppo``, ``a2c``, ``dqn``, ``sac``, ``td3``, ``ddpg``, or the path of an agent class.
        env: a gymnasium id or the path of an environment class.
        env_steps: environment steps to train, over all environments of the batch.
        seed: of everything random.
        keep: which policy is given and saved: that of the ``best`` score, or the ``last`` one.
        save_to: a file for the policy, which ``load_policy`` reads.
        overwrite: write the file even if there is one.
        num_envs: environments in the batch.
        episodes: in which each point of the curve is scored.
        device: ``auto``, ``cpu`` or ``cuda``.
        wrappers: of gymnasium, as ``env.wrappers`` of a configuration: innermost first, each
            ``"pkg.mod:Wrapper"`` or ``{"pkg.mod:Wrapper": {argument: value}}``.
        env_kwargs: keyword arguments of the environment itself.
        max_episode_steps: after which an episode is truncated, as ``env.max_episode_steps``.
        progress: show a line of progress on standard error. None: in a terminal or a notebook.
        on_progress: called after every update with the progress of the training.
        hyperparameters: of the agent; its defaults stand where nothing is given.

    Raises:
        UserError: an unknown name, a value that can't be, an agent that can't act, a file is there.
    """
    task = {"id": env, "num_envs": num_envs, "wrappers": wrappers, "kwargs": env_kwargs or {}}
    fields = {
        "name": "train", "seed": seed, "env": {**task, "max_episode_steps": max_episode_steps},
        "round": {"episodes": episodes}, "pod": {"device": str(device)},
        "stop": {"env_steps": env_steps},
        "population": {"algorithms": {agent: 1}, "pods": {"min": 1, "max": 1}},
        "agents": {agent: hyperparameters} if hyperparameters else {},
    }  # fmt: skip
    config = from_mapping(fields)
    scored = replace(config.round, env_steps=max(1, (config.stop.env_steps or 1) // 10))
    config, to = replace(config, round=scored), save_to
    with progress_line(progress, on_progress) as tell:
        return train_config(config, save_to=to, overwrite=overwrite, keep=keep, on_progress=tell)


def train_config(
    config: RunConfig,
    *,
    env_steps: int | None = None,
    save_to: str | Path | None = None,
    overwrite: bool = False,
    keep: Keep = "best",
    on_progress: Callable[[Progress], None] = lambda progress: None,
    source: str = "the configuration",
) -> Training:
    """Train the first algorithm of a configuration, with no tournament.

    A hyperparameter that is a range takes the agent's default, or the range's middle if the
    default is outside. Other arguments are ``train``'s.

    Raises:
        UserError: the configuration has problems, or says nowhere how long to train.
    """
    steps, stop = env_steps, config.stop
    if steps is None:
        steps = stop.env_steps or (stop.rounds and stop.rounds * config.round.env_steps)
    if steps is None:
        raise ConfigError(source, ["nothing says how long to train: give env_steps"])
    resolved, look = resolve_task(config, source=source)
    name = next(iter(config.population.algorithms))
    space = resolved.algorithms[name]
    hyperparameters = space.unmutated()
    alone = {name: replace(space, values=hyperparameters)}
    said = remarks(_of_one(config, name, steps), alone, None)
    for remark in (*of_environment(config, look), *said):
        log.warning("%s", remark)
    with plugins.needing_torch():  # not before: the trial may refuse without torch
        from hpcpod.pod import standalone

    return standalone.train(
        config,
        space,
        hyperparameters,
        env_steps=steps,
        save_to=Path(save_to) if save_to is not None else None,
        overwrite=overwrite,
        keep=keep,
        on_progress=on_progress,
    )


def _of_one(config: RunConfig, name: str, steps: int) -> RunConfig:
    """The configuration of a run that trains one agent."""
    pods = replace(config.population.pods, min=1, max=1)
    population = replace(config.population, algorithms={name: 1.0}, pods=pods)
    stop = replace(config.stop, env_steps=steps, rounds=None)
    # Settings for an algorithm that is not trained were a traceback.
    agents = {key: values for key, values in config.agents.items() if key == name}
    pod = replace(config.pod, ranks=1)
    return replace(config, population=population, agents=agents, stop=stop, pod=pod)


@door(source=Any, pod=str | None, keep=Keep, trust=bool)
def load_policy(
    source: str | Path | Run, *, pod: str | None = None, keep: Keep = "best", trust: bool = False
) -> Policy:
    """The best policy of a run or of a pod, or the one in a checkpoint file, as a function.

    It may be an ensemble. ``about`` of it says of which pod and round it is and, if that is known,
    its ``score``.

    Args:
        source: a ``Run``, a run's folder or name, or a ``.h5`` file.
        pod: of a run, the pod; by default the winner, or the leader so far.
        keep: of a run, the pod's policy at its ``best`` evaluation, or its ``last`` one.
        trust: import the class of an agent that is not built in, though the policy is another
            user's.

    Returns:
        A callable on the environment's own observations, one or a batch; it gives the action for
        the environment.

    Raises:
        UserError: nothing is there, or the run has no policy yet, or it is another user's
            and of an agent that is not built in.
        StorageError: the run's board is lost, and so is its ``best.h5``.
    """
    found = source if isinstance(source, Run) else _file_or_run(source)
    agents: set[str] | None = None
    about: Mapping[str, Any] = {}
    if isinstance(found, Run):
        agents = {space.agent for space in found.folder.resolved.algorithms.values()}
        given = kept(found.folder, pod, keep)
        found, about = given.checkpoint, given.about
    elif pod is not None or keep != "best":
        raise UserError(f"{found} is one policy: pod and keep are of a run")
    with plugins.needing_torch():
        from hpcpod.pod.policy import load_policy_file

    return load_policy_file(found, agents=agents, trust=trust, about=about)


@door(members=Any, rule=Rule | None, trust=bool)
def ensemble(
    members: Iterable[Policy | str | Path | Run], *, rule: Rule | None = None, trust: bool = False
) -> Policy:
    """Several policies as one, which is called, scored and saved as any policy is.

    ``hpcpod.ensemble([hpcpod.load_policy(run, pod=row.pod) for row in run.leaderboard()[:3]])``
    joins the best three of a run.

    Args:
        members: policies of the same spaces, or what ``load_policy`` takes; the best one first, for
            ties go to it.
        rule: of continuous actions ``mean``, of choices ``vote`` or ``product`` (of the members'
            distributions), of members of one algorithm that has critics ``q_weighted``. None:
            ``mean`` or ``vote``.
        trust: as for ``load_policy``.

    Returns:
        The policy. ``about`` has its ``rule``, and of each of its ``members`` what was known of it.

    Raises:
        UserError: their spaces differ, the rule is not for them, or one can't be loaded.
    """
    if isinstance(members, str) or not isinstance(members, Iterable):
        raise UserError(f"expected a list of policies, got {members!r}: an ensemble has 2 or more")
    with plugins.needing_torch():
        from hpcpod.pod.ensemble import default_rule, ensemble_of
        from hpcpod.pod.policy import Policy

    policies = [
        each if isinstance(each, Policy) else load_policy(each, trust=trust) for each in members
    ]
    if rule is None:
        rule = default_rule(policies[0].spec) if policies else "mean"
    return ensemble_of(policies, rule)


def _file_or_run(source: str | Path) -> Path | Run:
    try:
        path = Path(source)
    except TypeError as error:
        said = f"expected a Run, a run's folder or name, or a .h5 file, got {source!r}"
        raise UserError(said) from error
    return path if path.is_file() else open_run(source)


@door(
    id=Any, num_envs=_ENV["num_envs"], backend=str, device=Any,
    processes=_ENV["processes"], python=str | None,
)  # fmt: skip
def make_env(  # noqa: PLR0913 (the fields of ``env`` in a configuration, by their names there)
    id: str | Callable[..., Any] | VectorEnv[Any, Any, Any],
    num_envs: int = 1,
    backend: str = "auto",
    device: str = "cpu",
    wrappers: Sequence[Wrapper] = (),
    kwargs: Mapping[str, object] | None = None,
    processes: int | None = 1,
    python: str | None = None,
    max_episode_steps: int | None = None,
) -> VecEnv:
    """A batched environment: tensors in, tensors out (see ``hpcpod.envs.vec_env.VecEnv``).

    Args:
        id: a gymnasium id, the path of an environment class, or what returns an environment; for
            backend ``vector`` what returns a gymnasium VectorEnv, or its path; or a VectorEnv.
        num_envs: environments in the batch; a VectorEnv has its own.
        backend: ``auto``, a name of the group ``hpcpod.envs``, or the path of a class.
        device: where the tensors live.
        wrappers: of gymnasium, as for ``train``.
        kwargs: keyword arguments of the environment itself.
        processes: that step a part of the environments each, as ``env.processes``. None: 1 or as
            many as there are CPUs, whichever is measured to be faster.
        python: path of another Python that steps them, as ``env.python``.
        max_episode_steps: after which an episode is truncated, as ``env.max_episode_steps``.

    Raises:
        UserError: the environment can't be made.
    """
    if python is None:
        with plugins.needing_torch():
            from hpcpod.envs import make
        given = (numbers(wrappers), numbers(kwargs))
        return make.make_env(
            id, num_envs, backend, str(device), *given, processes, max_episode_steps
        )
    fields = {
        "id": id, "num_envs": num_envs, "backend": backend, "wrappers": wrappers,
        "kwargs": kwargs or {}, "processes": processes, "python": python,
        "max_episode_steps": max_episode_steps,
    }  # fmt: skip
    config, problems = build(EnvConfig, fields)
    if config is None:
        raise ConfigError("make_env", problems)
    with plugins.needing_torch():
        from hpcpod.envs.make import configured

    return configured(config, num_envs, str(device))
