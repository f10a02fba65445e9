"""The placement of a pod on its machines: ranks, nodes, cores, GPUs."""

from __future__ import annotations

from dataclasses import dataclass

from hpcpod.config.schema import RunConfig
from hpcpod.errors import UserError

ON_ONE_DEVICE = ("torch", "warp")
"""Backends that step all environments of a batch at once, on the agent's device."""


@dataclass(frozen=True)
class Shape:
    """The shape of a pod: the share of each of its parts."""

    ranks: int
    """Processes that train the pod."""
    nodes: int
    """Nodes that they lie on, as many on each."""
    cpus_per_rank: int
    """Cores of a rank."""
    gpus: int
    """GPUs of the pod."""

    @property
    def ranks_per_node(self) -> int:
        """Ranks on one node."""
        return self.ranks // self.nodes

    @property
    def gpus_per_node(self) -> int:
        """GPUs on one node."""
        return self.gpus // self.nodes

    @property
    def cpus(self) -> int:
        """Cores of the pod, over all nodes."""
        return self.cpus_per_rank * self.ranks


def shape_of(config: RunConfig, nodes: int = 1) -> Shape:
    """The shape of this run's pods on that many nodes.

    Raises:
        UserError: ranks can't be shared out evenly.
    """
    resources, own = config.resources, config.program is not None
    ranks = nodes if own else ranks_of(config)  # a program starts its own: a task for each node
    if ranks % nodes:
        raise UserError(
            f"resources.nodes_per_pod: {ranks} ranks can't be shared out evenly to {nodes} nodes;"
            " change pod.ranks, resources.gpus_per_pod or resources.nodes_per_pod"
        )
    return Shape(ranks, nodes, max(1, resources.cpus_per_pod // ranks), resources.gpus_per_pod)


def trains_on_gpu(config: RunConfig) -> bool:
    """True if pods are given GPUs, and use them."""
    return config.resources.gpus_per_pod > 0 and config.pod.device != "cpu"


def ranks_of(config: RunConfig) -> int:
    """Processes that train one pod.

    Raises:
        UserError: more than there are GPUs for.
    """
    gpus = config.resources.gpus_per_pod
    ranks = config.pod.ranks or max(1, gpus)
    if gpus and ranks not in (1, gpus):
        raise UserError(
            f"pod.ranks: a rank has one GPU, but there are {ranks} ranks and"
            f" resources.gpus_per_pod is {gpus}; leave pod.ranks out, or make it {gpus}"
        )
    return ranks


LENGTH = 1_000
"""Steps that an episode is taken to last where the environment does not say its limit."""
WALK = 10
"""Most steps of a walk (see ``walk_of``) for each one that the round learns from."""


def walk_of(config: RunConfig, length: int | None) -> int:
    """Most steps that a round's environments are led on before it learns from them.

    Rounds that are shorter than an episode, and can't hand theirs on, would all learn from the same
    first steps. So each of them begins somewhere in the middle.

    Args:
        config: of the run.
        length: the time limit of an episode in steps; None: it is not known.

    Returns:
        The length, but at most ten times the steps of each environment in a round; 0 where a round
        sees whole episodes.
    """
    steps = -(-config.round.env_steps // (config.env.num_envs * ranks_of(config)))
    length = LENGTH if length is None else length
    # Without it only the first steps of long episodes were ever trained on.
    return 0 if steps >= length else min(length, WALK * steps)


def scores_beside(config: RunConfig) -> bool:
    """``pod.score_beside``, or whether there is a core for it."""
    wanted = config.pod.score_beside
    return config.resources.cpus_per_pod > ranks_of(config) if wanted is None else wanted
