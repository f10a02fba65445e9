"""The grid of GPUs by node: their users, and the places where a job fits."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

S = TypeVar("S")

Counts = NDArray[np.int64]
Place = tuple[int, int]
"""A node and one of its GPUs."""
NEVER = float("inf")


@dataclass(frozen=True)
class Reservation:
    """When and where the first of the queue will start at the latest, by the limits of others."""

    at: float
    spare: Counts
    """Per node: GPUs that are free by then and that it will not need."""


@dataclass
class Grid(Generic[S]):
    """The GPUs of a cluster. Other users come first: to them a slot's GPU is a free one.

    ``S`` is what stands for a slot. A slot has one GPU.
    """

    nodes: int
    gpus: int
    """Of a node."""
    free: Counts = field(init=False)
    """Per node, GPUs that no other user has, whether a slot has them or not."""
    slots: Counts = field(init=False)
    """Per node, GPUs that slots have."""
    open: Counts = field(init=False)
    """Per node, 1, or 0 while nothing may start there."""

    def __post_init__(self) -> None:
        self.free = np.full(self.nodes, self.gpus, np.int64)
        self.slots = np.zeros(self.nodes, np.int64)
        self.open = np.ones(self.nodes, np.int64)
        self.ends = np.zeros((self.nodes, self.gpus))
        """When the limit of another's job on it ends; 0 without one."""
        self.holders: list[list[S | None]] = [[None] * self.gpus for _ in range(self.nodes)]
        self.idle_since: list[list[float]] = [[0.0] * self.gpus for _ in range(self.nodes)]
        """When a GPU was last given back by anybody, or came up with its node."""

    @property
    def for_others(self) -> Counts:
        """Per node, GPUs that another's job may start on now."""
        return self.free * self.open

    @property
    def idle(self) -> Counts:
        """Per node, GPUs that nobody has and that may be used."""
        return (self.free - self.slots) * self.open

    @property
    def left(self) -> Counts:
        """Per node, GPUs that are a slot's or could be: a drained node keeps what runs there."""
        return np.where(self.open == 1, self.free, self.slots)

    def find(self, nodes: int, gpus: int, usable: Counts) -> list[int] | None:
        """Nodes with so many usable GPUs: where the fewest slots must leave, fullest first."""
        fits = np.flatnonzero(usable >= gpus)
        if len(fits) < nodes:
            return None
        free = self.free[fits]
        evicted = np.maximum(0, gpus - free + self.slots[fits])
        cost = evicted * (self.gpus + 1) + free
        if nodes == 1:
            return [int(fits[np.argmin(cost)])]
        best = np.argsort(cost, kind="stable")[:nodes]
        return [int(node) for node in fits[best]]

    def reservation(self, nodes: int, gpus: int) -> Reservation | None:
        """The earliest start of a job that does not fit now; None while too many nodes are away."""
        when = np.sort(self.ends, axis=1)[:, gpus - 1]
        when[self.open == 0] = NEVER
        chosen = np.argsort(when, kind="stable")[:nodes]
        if len(chosen) < nodes or when[chosen[-1]] == NEVER:
            return None
        at = float(when[chosen[-1]])
        spare = (self.ends <= at).sum(axis=1) * self.open
        spare[chosen] -= gpus
        return Reservation(at, spare)

    def choose(self, node: int, gpus: int) -> list[Place]:
        """GPUs for another's job on a node, those without a slot first."""
        free = [gpu for gpu in range(self.gpus) if self.ends[node, gpu] == 0]
        free.sort(key=lambda gpu: self.holders[node][gpu] is not None)
        return [(node, gpu) for gpu in free[:gpus]]

    def take(self, places: list[Place], until: float) -> None:
        """Another's job has these now, at most until then."""
        for node, gpu in places:
            self.ends[node, gpu] = until
            self.free[node] -= 1

    def give_back(self, places: list[Place], now: float) -> None:
        """Another's job has left."""
        for node, gpu in places:
            self.ends[node, gpu] = 0.0
            self.free[node] += 1
            self.idle_since[node][gpu] = now

    def vacancies(self, most: int, usable: Counts) -> list[Place]:
        """Idle GPUs for slots, on the fullest nodes first: whole nodes stay whole."""
        found: list[Place] = []
        candidates = np.flatnonzero(usable > 0)
        for node in candidates[np.argsort(self.idle[candidates], kind="stable")]:
            room = int(usable[node])
            for gpu in range(self.gpus):
                if room == 0 or len(found) == most:
                    break
                if self.ends[node, gpu] == 0 and self.holders[node][gpu] is None:
                    found.append((int(node), gpu))
                    room -= 1
            if len(found) == most:
                break
        return found

    def seat(self, place: Place, slot: S) -> None:
        """A slot has this GPU now."""
        self.holders[place[0]][place[1]] = slot
        self.slots[place[0]] += 1

    def vacate(self, place: Place, now: float) -> None:
        """A slot has left."""
        node, gpu = place
        self.holders[node][gpu] = None
        self.slots[node] -= 1
        self.idle_since[node][gpu] = now

    def close(self, node: int) -> None:
        """Nothing starts on this node from now on."""
        self.open[node] = 0

    def reopen(self, node: int, now: float) -> None:
        """The node is back."""
        self.open[node] = 1
        for gpu in range(self.gpus):
            if self.ends[node, gpu] == 0 and self.holders[node][gpu] is None:
                self.idle_since[node][gpu] = now
