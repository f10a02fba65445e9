"""The configuration of a run: frozen dataclasses whose field docstrings are the manual.

Everything has a default but ``name`` and ``env.id``. ``hpcpod validate CONFIG`` prints the
resolved file; ``hpcpod validate --fields`` prints this manual.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Literal

from hpcpod.config.cluster import ClusterConfig as ClusterConfig
from hpcpod.config.cluster import ResourcesConfig as ResourcesConfig
from hpcpod.config.continuous import CtConfig as CtConfig
from hpcpod.config.limits import Count, Crowd, Limit, Limited, Natural, Panel, Positive
from hpcpod.config.program import ProgramConfig as ProgramConfig
from hpcpod.config.program import misfits
from hpcpod.config.space import Value
from hpcpod.config.start_from import StartFrom as StartFrom
from hpcpod.config.stopping import EnsemblesConfig as EnsemblesConfig
from hpcpod.config.stopping import StopConfig as StopConfig

Wrapper = str | dict[str, dict[str, object]]

LONGEST_NAME = 200
"""Bytes of a run's name: a filesystem takes 255, and names such as ``<name>.h5`` are longer."""


@dataclass(frozen=True)
class EnvConfig(Limited):
    """The task."""

    id: str
    """A gymnasium id (``CartPole-v1``) or the path of an environment class (``pkg.mod:MyEnv``);
    for backend ``vector`` the path of what returns a VectorEnv."""
    num_envs: Crowd = 8
    """Environments that one rank of a pod steps as one batch."""
    backend: str = "auto"
    """The batched environment to use: ``auto``, ``gymnasium``, ``mujoco`` (its v5 tasks on all
    threads), ``warp`` (the same tasks by MuJoCo Warp on the agent's GPU, in float32), ``torch``
    (classic control in thousands, on the agent's device), ``vector`` (a gymnasium VectorEnv, which
    the path in ``id`` returns) or the path of another. ``auto`` is ``mujoco`` for its tasks,
    without ``wrappers`` and with ``kwargs`` that it knows, else ``gymnasium``. ``envpool``: ``id``
    is a task of EnvPool's (``Pong-v5``), which its threads step. ``isaaclab``: what the path in
    ``id`` returns is Isaac Lab's. With ``python`` also ``isaacgym``: ``id`` is a task's name
    (``Ant``), or the path of what gives a ``VecTask``.
    """
    wrappers: tuple[Wrapper, ...] = ()
    """gymnasium wrappers, innermost first: ``pkg.mod:Name`` or ``{pkg.mod:Name: {arg: 1}}``."""
    kwargs: Mapping[str, object] = field(default_factory=dict)
    """Keyword arguments of the environment itself: ``{gravity: 5.0}``."""
    max_episode_steps: Count | None = None
    """Steps after which an episode is truncated, unless the environment ends it before. What would
    have come is estimated, as with every truncated episode. Null: the environment's own time limit,
    if it has one; without any, a panel may never end (``longest_episode``). Backends that can't cut
    an episode (``vector``, ``isaaclab``, ``isaacgym``, a path) refuse it."""
    longest_episode: Count = 100_000
    """Steps after which a panel fails if an episode of it still has not ended: the round has an
    error that says so. A time limit may be longer."""
    processes: Count | None = None
    """Processes that step the environments, ``num_envs`` at most. 1: the training process steps
    them itself. More are for environments whose step takes long in Python: each has a part of them
    and runs the backend on it with one thread, so give ``resources.cpus_per_pod`` as many. Panels
    have as many processes of their own, which sleep meanwhile; each takes some 150 MB. Results are
    the same to the bit. Null: for each batch what is measured to be faster when it is made, 1 or as
    many as ``resources.cpus_per_pod``; the log has the numbers. Other backends than ``gymnasium``,
    and ``python``, have 1 then."""
    python: str | None = None
    """Path of another Python, such as ``/path/to/bin/python``, whose processes step the
    environments, which have the interface of gymnasium or gym: for simulators that need an old
    Python, or packages that contradict these. It needs numpy, not hpcpod. Null: this one."""
    trial_seconds: Positive = 120.0
    """Seconds without a sign of life in the environment's trial, before a run, in a process of its
    own. Signs are: an environment made or reset, a step. Then it is taken to hang, and is ended
    with all that it has started."""
    compare_engines: bool = False
    """True if scores may be compared that other simulators, or other versions, have computed. If
    not, the run's first round decides by its engine, and slots where it differs do no work: the
    same seed and actions lead elsewhere in another version, within a second in MuJoCo."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.id.strip() and ":" not in self.backend:  # a backend of one's own may need none
            raise ValueError("id is empty: name an environment, such as CartPole-v1")
        if self.processes is not None and self.processes > self.num_envs:
            raise ValueError(
                f"processes must be at most num_envs, got processes {self.processes} and"
                f" num_envs {self.num_envs}"
            )
        if self.python is not None and self.backend not in ("auto", "gymnasium", "isaacgym"):
            raise ValueError(
                f"backend {self.backend} steps in this Python: take auto or isaacgym, or leave"
                " python out"
            )
        if self.backend == "isaacgym" and (self.python is None or (self.processes or 1) > 1):
            raise ValueError(
                "backend isaacgym needs python, an interpreter that has Isaac Gym, and processes 1"
            )
        for wrapper in self.wrappers:
            if not isinstance(wrapper, str) and len(wrapper) != 1:
                raise ValueError(
                    f"each wrapper is a path or a mapping with one path as its key,"
                    f" got {len(wrapper)} keys: {', '.join(wrapper)}"
                )


@dataclass(frozen=True)
class PodsConfig(Limited):
    """The number of pods that the population may hold."""

    min: Count = 2
    """No schedule and no ``hpcpod scale`` leaves fewer pods in training; where there are fewer
    slots than that, they train them in turns."""
    max: Crowd = 8
    """Pods in the population, and the most slots at once. With fewer slots than pods they take
    turns, as the allocator says: by ``fair`` each algorithm gets its share of the time, and within
    it the fewest rounds go first. When a schedule or ``hpcpod scale`` takes slots away, those with
    the worst prospects rest until there is room again."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.max < self.min:
            raise ValueError(f"max must be at least min, got min {self.min} and max {self.max}")


@dataclass(frozen=True)
class PopulationConfig(Limited):
    """The population: its algorithms, its selection and its births."""

    scheme: Literal["tournament", "generational"] = "tournament"
    """``tournament``: every report is judged as it comes, and no pod waits. ``generational``: after
    each round pods wait for each other at a barrier, and all are judged at once."""
    quorum: Annotated[float, Limit(above=0, most=1)] = 0.6
    """``generational``: share of the awaited pods without which a barrier never opens; with 1 it
    waits for all, however long. Pods that rest, or lag by more than a round, are not awaited."""
    deadline: Annotated[float, Limit(least=1)] = 1.25
    """``generational``: a barrier opens without the pods that are missing when so many times as
    long has passed as the quorum took. They are judged when they come."""
    pods: PodsConfig = field(default_factory=PodsConfig)
    """The size of the population."""
    algorithms: Mapping[str, Positive] = field(default_factory=lambda: {"ppo": 1.0})
    """Algorithms and their share of the population: ``{ppo: 1, dqn: 1}``."""
    updater: str = "paired_gate"
    """The rule for what the leaderboard keeps and when a copy is justified: a name or a path.
    ``paired_gate``: a pod is tested only if it is among the worst eighth, rounded up, by one half
    of its panel, and gives way only if a leader is better by a test on the other half. Where all
    are equal, a test finds a difference in about 5 % of cases (benchmarks/RESULTS.md); a run makes
    many tests. ``welch_gate``: the same without pairs, for environments whose seeds do not decide
    their episodes. ``pareto``: a leader must be shown to be better in return or in ``cost``, and
    not to be worse in the other. ``ranking``: the worst give way without a test, to compare
    with."""
    second_looks: Annotated[float, Limit(least=0, most=1)] = 0.0
    """Panels that grow where a test came close: the episodes that this may take, as a share of
    those of all panels so far. The pod and the leader that came closest play on with the
    checkpoints that were compared, two panels more each on common seeds, and the pod is tested
    again when it reports next. Each of its two tests then has half of the error level. 0: none.
    ``docs/evolution.md`` has what was measured."""
    cost: str = "seconds"
    """The second aim of the updater ``pareto``, of which less is better: ``seconds`` of a slot for
    a round, or the name of a metric that the agent's updates give."""
    generator: str = "gentle_truncation"
    """The rule that proposes the next pod: a name or a path. ``gentle_truncation``: a copy of a
    leader takes the place of one of the worst that it has beaten. Where all leaders have fallen
    behind the best row of the leaderboard, that row is copied. ``random_search``: draws alone; with
    ``stop.rounds`` and another limit a pod that is done gives its place to the next draw.
    ``ranking``: once per round the worst copies the best, without a test. ``multi_frequency``:
    sub-populations that select every 1, 10, 25 and 50 rounds. ``restarts``: a population that
    stagnates begins anew, half of it from scratch, and selects half as often. The other half are
    copies, whose weights are shrunk and perturbed. ``pb2``: copies get hyperparameters from a model
    of what rounds have gained."""
    allocator: str = "auto"
    """The rule that says who trains the next round, who rests and who is given up: a name or a
    path. ``auto``: ``halving`` with ``stop.minutes``, and with ``stop.env_steps`` unless each pod
    is asked a slot for, as on a cluster without ``cluster.slots``; else ``fair``. ``fair``: every
    pod trains as much. ``halving``: once any has learnt, each stage of the budget trains half as
    many pods as the one before; where the best of a stage stand still, pods that still gain, or
    else fresh draws, get half of the slots. ``replicates``: half of the budget is shared equally;
    then the best quarter train all of ``stop.rounds``, and the best of those again from scratch,
    with up to six seeds; it compares configurations, so have no copies (``generator:
    random_search``).
    ``ocba``: rounds go where they tell the best apart. ``thompson``: a pod trains as often as
    it may be the best. ``curves``: by where learning curves will be when the budget ends."""
    budget: Literal["env_steps", "seconds"] | None = None
    """The budget that an allocator spends: ``seconds`` of slots, or ``env_steps``, where a slot may
    idle while pods rest. Null: ``seconds`` with ``stop.minutes``, else ``env_steps``."""
    capacity: Count = 16
    """Rows that the leaderboard keeps; the best is never evicted."""
    warmup_rounds: Natural = 1
    """Rounds that every pod trains before it may be replaced by a copy."""
    controls: Natural = 1
    """Pods per algorithm that keep their first hyperparameters. No copy replaces them before the
    leader was shown to be better in four rounds one after another. After two an allocator may have
    them rest, or give their place to a fresh draw."""

    start_from: StartFrom | None = None
    """Another run whose best policy the first pods start from; null: all begin afresh. ``hpcpod
    launch CONFIG --from RUN`` sets it. The policy is copied into the run, so that the other one may
    be deleted; the environment may have other arguments, or be another one of equal spaces."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.algorithms:
            raise ValueError("algorithms must name at least one algorithm, such as {ppo: 1}")
        for name, share in self.algorithms.items():
            if not share > 0:
                raise ValueError(f"algorithms.{name} must be above 0, got {share}")
        if len(self.algorithms) > self.pods.max:
            raise ValueError(
                f"pods.max is {self.pods.max}, fewer than the {len(self.algorithms)} algorithms"
            )


@dataclass(frozen=True)
class RoundConfig(Limited):
    """The unit of evolution: train, evaluate on the panel, report."""

    env_steps: Count = 20_000
    """Environment steps that a pod trains in one round, over all its environments. The next round
    goes on in the episodes in progress. Where their state can't be saved it begins other ones, and
    is led on into their middle if they are longer than it. ``hpcpod validate`` says what share of
    an episode a round sees."""
    episodes: Panel = 32
    """Episodes of the panel on which every pod of a round is compared (common seeds): one half
    ranks the pods, the other half tests them. With fewer than 4 no test can be made, so that no pod
    is beaten by one."""


@dataclass(frozen=True)
class FusionConfig(Limited):
    """Fusion: the learners of a pod's ranks become one agent. See docs/fusion.md for when it
    pays."""

    scheme: str = "mean"
    """``mean``: the mean of the learners' parameters, weighted by samples. ``nesterov``: the mean
    as a step of an outer optimizer with momentum (DiLoCo). ``grad_allreduce``: every gradient is
    exchanged. ``none``: nothing is, and the first rank's agent is the pod's. Or a path."""
    every: Count = 1
    """Epochs (an agent's ``horizon`` steps and its update) between two fusions. The end of a round
    always fuses."""
    guard: Natural = 0
    """At every so many fusions the members and what became of them are scored on common seeds,
    ``round.episodes`` of them: one half chooses the best member, and if the fused agent is worse
    than it on the other half (Student's test at 5 %), that member goes on instead. It takes at
    least 4 episodes to find that. 0: never."""
    backend: Literal["auto", "gloo", "nccl", "mpi"] = "auto"
    """The carrier of tensors between ranks. ``auto``: ``nccl`` on GPUs where torch has it, else
    ``gloo``. ``mpi`` needs mpi4py, and carries a GPU's tensors through the host's memory if its
    MPI does not know GPUs; when one of its ranks dies, MPI ends them all. Between processes of one
    machine without GPUs it is much the faster (docs/fusion.md)."""
    mpi: str = "pmix"  # Debian's OpenMPI 4.1: "none" and "pmi2" fail, "not built with SLURM's PMI"
    """With ``mpi`` on Slurm: what ``srun --mpi=`` gets; ``srun --mpi=list`` tells what there is."""
    seconds: Positive = 120.0
    """A rank that does not come, or answer, for so long is taken for lost (not by ``mpi``)."""


@dataclass(frozen=True)
class PodConfig(Limited):
    """Inside a pod."""

    ranks: Count | None = None
    """Processes that train one pod, each with its own environments, buffer and learner; null: one
    for each GPU, or one."""
    worker: str = "batched"
    """The part that steps the environments and fills the buffer: a name or a path."""
    learner: str = "update"
    """The part that turns the buffer into better parameters: a name or a path."""
    fusion: FusionConfig = field(default_factory=FusionConfig)
    """Fusion of the ranks' learners."""
    pipeline: bool = False
    """True if the next rollout is collected, by a process of its own, while one is learned from.
    Off-policy and on-policy, a rollout is then collected with weights that are exactly one
    iteration (the agent's ``horizon`` times ``env.num_envs`` steps) older than those that learn
    from it; PPO and A2C correct for it. It wants two cores: ``resources.cpus_per_pod``."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """``cpu``, ``cuda``, or ``auto``: a GPU when ``resources.gpus_per_pod`` is above 0."""
    torch_threads: Count = 1
    """Threads of one tensor operation. More than one pays for wide networks on cores without
    other users, and costs where they are shared; simulators use ``resources.cpus_per_pod``."""
    matmul: Literal["highest", "high", "medium", "bfloat16"] = "highest"
    """Precision of float32 matrix products: ``highest`` is float32. The others trade digits for
    time where the processor can. ``high`` and ``medium``: TensorFloat32 on GPUs, and ``medium`` is
    bfloat16 (8 bits of mantissa) on CPUs that multiply it. ``bfloat16`` always rounds to that,
    also on GPUs, by torch's autocast, which pays for wide networks on processors that multiply it;
    weights, their moments and losses stay float32."""
    deterministic: bool = False
    """True if on a GPU, too, equal seeds are to give equal bits, and a resumed round to be the one
    that was not stopped, as on a CPU. Torch then takes kernels that add in one order, and refuses a
    part that has none. Simulators on a GPU, such as MuJoCo Warp, add contacts in any order."""
    evaluator: str = "panel"
    """The part that scores a pod at the end of a round: a name or a path."""
    score_beside: bool | None = None
    """True if rounds are scored by a process of their own, while training goes on in another: it
    costs memory for a second simulator (and on a GPU, a second process there). Null: where a slot
    has more cores (``resources.cpus_per_pod``) than a pod has ranks."""
    inherit_transitions: Natural | None = None
    """Transitions of its parent's replay buffer that a copied child takes over at most, the newest,
    by whole steps of ``env.num_envs``; each of a pod's ranks so many. Null: all, 0: none."""
    checkpoint_seconds: Positive = 30.0
    """Seconds between checkpoints inside a round (environments that can save their state)."""
    curve_rows: Natural = 200
    """Rows of a round's curve, at most: while a round is trained, its numbers are written into the
    run folder, evenly spread (``docs/metrics.md``). 0: there are no curves."""
    hang_seconds: Positive | None = 1800.0
    """A training process that shows no sign of life for so long is killed, and its round has
    crashed. A sign is an iteration or a step of an evaluation; null waits for ever."""


@dataclass(frozen=True)
class SnapshotsConfig(Limited):
    """Policies at equal wall times, to draw return against time and environment steps."""

    seconds: Annotated[float, Limit(least=1)] | None = None
    """Seconds between two snapshots, from when the first slot began to work, pauses included: the
    policy that leads the leaderboard by the last merge before then is kept. Null: none."""
    episodes: Panel = 32
    """Episodes that each of these policies is scored on, after the run, by its slots: on fresh
    seeds, the same for all of them. ``hpcpod snapshots RUN`` shows the scores."""


@dataclass(frozen=True)
class RunConfig:
    """A whole run."""

    name: str
    """The run's name: its folder is ``runs/<name>``."""
    env: EnvConfig
    """The task; left out where a ``program`` has its own."""
    program: ProgramConfig | None = None
    """A training program of the user's own, in place of agents and of ``env``."""
    seed: int = 0
    """The root of every random number of the run."""
    population: PopulationConfig = field(default_factory=PopulationConfig)
    """The tournament. ``population: auto`` has all that the file leaves open chosen at launch, from
    the task's spaces and its measured speed: algorithms, ranges, pods, rounds, environments. With
    ``{auto: true, pods: {max: 4}}`` some fields are yours. The run keeps what was chosen."""
    round: RoundConfig = field(default_factory=RoundConfig)
    """A round."""
    agents: Mapping[str, Mapping[str, Value]] = field(default_factory=dict)
    """Hyperparameters by algorithm, each a value or a range: ``{ppo: {gamma: 0.99}}``."""
    pod: PodConfig = field(default_factory=PodConfig)
    """Inside a pod."""
    stop: StopConfig = field(default_factory=StopConfig)
    """The end of the run: a tournament needs a target or one of the three limits."""
    snapshots: SnapshotsConfig = field(default_factory=SnapshotsConfig)
    """Policies at equal wall times."""
    metrics: tuple[str, ...] = ()
    """Loggers that get the curves, too, while pods train: ``tensorboard``, ``wandb``, ``trackio``,
    ``mlflow``, or the path of another one. Each needs its own package. W&B's is offline unless
    ``$WANDB_MODE`` says otherwise; ``hpcpod sync RUN`` sends the curves later."""
    resources: ResourcesConfig = field(default_factory=ResourcesConfig)
    """The needs of a pod."""
    cluster: ClusterConfig = field(default_factory=ClusterConfig)
    """The place where slots run."""
    ct: CtConfig | None = None
    """Continuous training, for ``hpcpod ct``; null: none."""
    on_finish: str | None = None
    """A line of shell that is run once, in the run folder, when the run has finished: by the
    process that finishes it, which waits up to 60 s. ``$HPCPOD_NAME``, ``$HPCPOD_STATE``
    (``finished`` or ``failed``), ``$HPCPOD_REASON``, ``$HPCPOD_BEST`` (a mean return, or nothing)
    and ``$HPCPOD_RUN`` (the folder) tell of it. Its output goes to ``logs/on_finish.log``; its
    failure is a warning."""

    def __post_init__(self) -> None:
        allowed = all(c.isalnum() or c in "._-+ " for c in self.name)
        if not self.name.strip() or self.name.startswith((".", "-")) or not allowed:
            raise ValueError(
                f"name must be made of letters, digits, '.', '_', '-', '+' and spaces,"
                f" and not start with '.' or '-', got {self.name!r}"
            )
        size = len(self.name.encode())
        if size > LONGEST_NAME:
            raise ValueError(f"name must be at most {LONGEST_NAME} bytes long, got {size}")
        if self.program is not None and (wrong := list(misfits(self))):
            raise ValueError("; ".join(wrong))
        if self.metrics and not self.pod.curve_rows:
            raise ValueError("metrics gets the rows of curves, of which pod.curve_rows 0 has none")
        for algorithm in self.agents:
            if algorithm not in self.population.algorithms:
                raise ValueError(
                    f"agents.{algorithm} has hyperparameters, but population.algorithms"
                    f" names only {', '.join(self.population.algorithms)}"
                )
