"""The hyperparameters of our agents, ``NAMEConfig`` of an agent ``NAME``: no torch is loaded."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from hpcpod.agents import checks
from hpcpod.agents.ppo_config import PPOConfig as PPOConfig
from hpcpod.agents.schedules import RateConfig
from hpcpod.config.space import Choice, LogUniform

MOST_STEPS = 100
"""Steps of one target: each is a pass over the batch."""
MOST_CRITICS = 64
"""Critics of one agent."""


@dataclass(frozen=True)
class DQNConfig(RateConfig):
    """Hyperparameters of DQN.

    By default a step size that falls and targets of three steps: without them seeds that had
    reached 500 on CartPole-v1 fell back (benchmarks/RESULTS.md).
    Ranges of ``search`` hold what rl-baselines3-zoo has tuned for classic control
    (hyperparams/dqn.yml), and those settings' neighbours.
    """

    # zoo, tuned: 6.3e-4 (Acrobot, LunarLander) to 4e-3 (MountainCar)
    learning_rate: float = field(default=5e-4, metadata={"search": LogUniform(1e-4, 4e-3)})
    """Step size of Adam."""
    anneal: bool = field(default=True, metadata={"absent": False})
    """See ``RateConfig``; here it does, unless told otherwise."""
    gamma: float = field(
        default=0.99, metadata={"near_one": True, "search": Choice((0.95, 0.98, 0.99, 0.995))}
    )
    """Discount factor, in [0, 1]."""
    buffer_size: int = 100_000
    """Transitions that the replay buffer holds, over all environments."""
    batch_size: int = field(default=128, metadata={"search": Choice((64, 128, 256))})
    """Transitions in one gradient update."""
    learning_starts: int = field(default=1_000, metadata={"initial": True})
    """Transitions to collect before the first gradient update, or as many as the buffer holds; each
    of a pod's ranks its own. A copy that inherits fewer waits for them."""
    horizon: int = field(default=4, metadata={"search": Choice((4, 8, 16))})
    """Steps of each environment between two rounds of gradient updates."""
    # by half as many LunarLander ended at -21 and -1, not 216 and 199
    updates_per_step: float = field(default=0.5, metadata={"search": Choice((0.25, 0.5, 1.0))})
    """Gradient updates for each transition collected, over all environments."""
    updates_per_iteration: int = 0  # with 8 times the environments 1/8 for a transition
    """Gradient updates in each round of them, whatever was collected; 0: ``updates_per_step``."""
    # zoo, tuned: after 10 (CartPole) to 600 (MountainCar) steps of its one environment
    target_interval: int = field(default=250, metadata={"search": Choice((64, 125, 250, 500))})
    """Gradient updates between two updates of the target network."""
    tau: float = 1.0
    """Share of the way that the target network moves to the online one, in (0, 1]; 1 copies it."""
    epsilon_start: float = field(default=1.0, metadata={"initial": True})
    """Share of random actions at the first step of a pod that begins from scratch."""
    # zoo, tuned: 0.04 (CartPole) to 0.1
    epsilon_end: float = field(default=0.05, metadata={"search": Choice((0.02, 0.05, 0.1))})
    """Share of random actions that is left in the end."""
    epsilon_fraction: float = 0.1
    """Part of the run's budget (see ``anneal``) in which the share falls, linearly, in [0, 1]: of
    what is left of it when a pod begins from scratch. A copy goes on where its parent's falls. As
    ``anneal`` it waits for the second round where ``stop.minutes`` alone limit the run."""
    epsilon_steps: int = 0
    """Environment steps of experience in which it falls instead, those of a copy's ancestors
    included; 0: see ``epsilon_fraction``."""
    double: bool = True
    """Choose the next action by the online network and value it by the target network."""
    dueling: bool = field(default=False, metadata={"structural": True})
    """Split the network into the state's value and the actions' advantages."""
    n_steps: int = field(default=3, metadata={"search": Choice((1, 3, 5))})
    """Steps of reward in a target before the target network values the rest."""
    priority_exponent: float = field(default=0.0, metadata={"structural": True})
    """Draw transitions in proportion to their errors to this power, in [0, 1]; 0: all alike.
    The errors of a group of updates count from the next group on."""
    priority_beta: float = 0.4
    """Share of the bias of such drawing that importance weights correct at first, in [0, 1]."""
    priority_beta_steps: int = 0
    """Environment steps of experience in which that rises to 1, linearly; 0: the run's budget (see
    ``anneal``)."""
    max_grad_norm: float = 10.0
    """The gradient is scaled down to this Euclidean norm; 0 leaves it."""
    hidden: int = field(default=128, metadata={"structural": True})
    """Units of each hidden layer."""
    layers: int = field(default=2, metadata={"structural": True})
    """Hidden layers."""
    normalize_obs: bool = field(default=False, metadata={"structural": True})
    """Scale vector observations by their running mean and variance."""

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.each(self, checks.positive, "tau updates_per_step")
        checks.each(self, checks.fraction, "gamma tau epsilon_start epsilon_end epsilon_fraction")
        checks.each(self, checks.fraction, "priority_exponent priority_beta")
        checks.each(
            self, checks.at_least, "buffer_size batch_size horizon target_interval n_steps", 1
        )
        checks.at_most("n_steps", self.n_steps, MOST_STEPS)
        checks.shape(self.hidden, self.layers)
        checks.each(self, checks.at_least, "learning_starts updates_per_iteration max_grad_norm", 0)
        checks.each(self, checks.at_least, "epsilon_steps priority_beta_steps", 0)


@dataclass(frozen=True)
class ActorCriticConfig(RateConfig):
    """Hyperparameters of an actor-critic that learns from a replay buffer.

    Ranges of ``search`` hold what rl-baselines3-zoo has tuned (hyperparams/sac.yml, td3.yml).
    """

    # zoo, tuned: 3e-4 to 1e-3 (Pendulum)
    learning_rate: float = field(default=3e-4, metadata={"search": LogUniform(1e-4, 3e-3)})
    """Step size of Adam, for all that is learned."""
    gamma: float = field(
        default=0.99, metadata={"near_one": True, "search": Choice((0.95, 0.98, 0.99, 0.995))}
    )
    """Discount factor, in [0, 1]."""
    # zoo, tuned: 0.005 to 0.02 (BipedalWalker)
    tau: float = field(default=0.005, metadata={"search": Choice((0.005, 0.01, 0.02))})
    """Share of the way that the target networks move to the online ones each time, in (0, 1]."""
    buffer_size: int = 1_000_000
    """Transitions that the replay buffer holds, over all environments."""
    batch_size: int = field(default=256, metadata={"search": Choice((128, 256))})
    """Transitions in one gradient update."""
    learning_starts: int = field(default=1_000, metadata={"initial": True})  # rl-zoo: 10,000
    """Transitions to collect, by random actions, before the first gradient update, or as many as
    the buffer holds; each of a pod's ranks its own. A copy that inherits fewer waits for them."""
    noise_memory: int = field(default=1_024, metadata={"absent": 1})
    """Steps over which exploration's noise is correlated at most: pink noise, which reaches what
    noise that forgets at once never does (``agents/noise.py``). 1: white noise, as in the papers
    of SAC and TD3."""
    # others update once after each step of their one environment
    horizon: int = field(default=16, metadata={"search": Choice((4, 8, 16))})
    """Steps of each environment between two rounds of gradient updates."""
    updates_per_step: float = field(default=1.0, metadata={"search": Choice((0.25, 0.5, 1.0))})
    """Gradient updates for each transition collected, over all environments."""
    critics: int = field(default=2, metadata={"structural": True})
    """Critics whose smallest value counts."""
    hidden: int = field(default=256, metadata={"structural": True})
    """Units of each hidden layer."""
    layers: int = field(default=2, metadata={"structural": True})
    """Hidden layers of the policy, and as many of each critic."""
    h_term: float = 0.0
    """Weight of the Hamiltonian term (``agents/h_term.py``); its papers take 0.125. 0: none."""
    h_steps: int = 4
    """Steps in a run of the Hamiltonian term."""
    normalize_obs: bool = field(default=False, metadata={"structural": True})
    """Scale vector observations by their running mean and variance."""

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.each(self, checks.positive, "tau updates_per_step")
        checks.each(self, checks.fraction, "gamma tau")
        checks.at_least("learning_starts", self.learning_starts, 0)
        checks.each(self, checks.at_least, "buffer_size batch_size noise_memory horizon critics", 1)
        checks.at_most("critics", self.critics, MOST_CRITICS)
        checks.shape(self.hidden, self.layers)
        checks.h_term(self.h_term, self.h_steps)


@dataclass(frozen=True)
class SACConfig(ActorCriticConfig):
    """Hyperparameters of SAC; the defaults are the paper's (table 1), but for what it lacks."""

    temperature: float = 0.0
    """Weight of the policy's entropy beside the reward; 0 learns it."""
    temperature_init: float = field(default=1.0, metadata={"initial": True})
    """First value of a learned temperature."""
    target_entropy: float = -1.0
    """Entropy that a learned temperature steers to, in nats for each number of an action."""

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.positive("temperature_init", self.temperature_init)
        checks.at_least("temperature", self.temperature, 0)
        if not math.isfinite(self.target_entropy):
            raise ValueError(f"target_entropy must be finite, got {self.target_entropy}")


@dataclass(frozen=True)
class TD3Config(ActorCriticConfig):
    """Hyperparameters of TD3; the defaults are those of the authors' code, but for
    ``learning_starts`` (25,000 is more than a short task takes) and the noise: theirs, white and of
    0.1, never finds a reward that takes a hundred steps of pushing.
    """

    # 0.1 left two of three seeds standing still on MountainCarContinuous, 0.5 none.
    exploration_noise: float = field(
        default=0.5, metadata={"search": Choice((0.1, 0.2, 0.5, 1.0, 5.0))}
    )
    """Standard deviation of the noise that is added to actions in [-1, 1] when exploring."""
    target_noise: float = 0.2
    """Standard deviation of the noise on the target policy's actions; 0: no smoothing."""
    target_noise_clip: float = 0.5
    """Greatest size of that noise: it is cut to this."""
    policy_delay: int = 2
    """Updates of the critics for each one of the policy and of the target networks."""
    h_term: float = 0.0
    """Weight of the Hamiltonian term (``agents/h_term.py``); its papers take 0.125. 0: none.
    The policy, which has no density, counts as a normal distribution of width 1."""

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.each(self, checks.at_least, "exploration_noise target_noise target_noise_clip", 0)
        checks.at_least("policy_delay", self.policy_delay, 1)


@dataclass(frozen=True)
class DDPGConfig(TD3Config):
    """Hyperparameters of DDPG: TD3's, without what TD3 has added."""

    target_noise: float = 0.0
    """Standard deviation of the noise on the target policy's actions; 0: no smoothing."""
    policy_delay: int = 1
    """Updates of the critic for each one of the policy and of the target networks."""
    critics: int = field(default=1, metadata={"structural": True})
    """Critics whose smallest value counts."""


@dataclass(frozen=True)
class A2CConfig(PPOConfig):
    """Hyperparameters of A2C: PPO's; ``clip`` and ``target_kl`` have no effect while it
    takes one step for each rollout, as by default. In a pipeline ``clip`` has: the rollout is one
    of older weights. Advantages are in units of the returns' standard deviation, so that
    the step does not depend on the scale of rewards; a rollout is too short to normalise them by
    itself.

    With these defaults four of ten seeds ended below 0 on LunarLander-v3, and Pendulum-v1 was not
    learned (benchmarks/RESULTS.md).
    """

    # zoo, tuned (hyperparams/a2c.yml): 3.8e-4 to 2e-3
    learning_rate: float = field(default=1.5e-3, metadata={"search": LogUniform(3e-4, 5e-3)})
    """Step size of Adam."""
    anneal: bool = field(default=True, metadata={"absent": False})
    """See ``RateConfig``; here it does, unless told otherwise."""
    gamma: float = field(
        default=0.995, metadata={"near_one": True, "search": Choice((0.9, 0.98, 0.99, 0.995))}
    )
    """Discount factor, in [0, 1]."""
    entropy: float = 0.003
    """Weight of the entropy bonus: larger keeps exploring for longer."""
    epochs: int = 1
    """Passes over each rollout."""
    minibatch_size: int = 2**31
    """Steps in one gradient update: all."""
    horizon: int = field(default=5, metadata={"search": Choice((5, 8, 16, 32))})
    """Steps that each environment contributes to a rollout."""
    normalize_advantage: bool = False  # blew up the noise of 64 steps: LunarLander hovered
    """Scale the advantages of each minibatch to mean 0 and variance 1."""
    # White noise left 3 of 10 seeds worse than standing still on MountainCarContinuous.
    noise_memory: int = field(default=16, metadata={"absent": 1})
    """Steps over which the noise of continuous actions is correlated at most
    (``agents/noise.py``). 1: white noise, as in the paper."""
