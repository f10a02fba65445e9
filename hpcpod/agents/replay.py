"""The replay buffer of off-policy algorithms: a ring that is sampled from."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from hpcpod.agents.segments import (
    FLAGS,
    Row,
    blank,
    check_contiguous,
    check_range,
    segment_of,
    spread,
)
from hpcpod.agents.sum_tree import SumTree
from hpcpod.envs.vec_env import EnvSpec, Space, State, Step, tensor_form

_WAITING = 64
"""Rows that wait at most until they are laid into the ring, all in one go."""
_LEAST = 1e-6
"""ε of proportional prioritisation: no transition is forgotten."""


class ReplayBuffer:
    """A ring of the last rows.

    Row k lies at slot k % (capacity + 1). The one slot more holds the successor of the newest
    row, so every row that is there can be sampled, and none reaches across the seam.

    With a priority exponent α > 0 transitions are drawn in proportion to |δ|^α, the size of
    their last error (Schaul et al. 2016, arXiv:1511.05952, section 3.3); a new one counts as
    the largest so far.
    """

    def __init__(
        self, spec: EnvSpec, capacity: int, device: str = "cpu", priority_exponent: float = 0.0
    ) -> None:
        """Reserve memory for ``max(1, capacity // num_envs)`` rows (capacity: transitions)."""
        self.capacity = max(1, capacity // spec.num_envs)
        """Rows that the ring holds."""
        self._slots = self.capacity + 1
        self._num_envs = spec.num_envs
        self._device = device
        shape = (self._slots, spec.num_envs)
        self._rings = {
            "obs": _empty(shape, spec.observation, device),
            "action": _empty(shape, spec.action, device),
            "reward": torch.zeros(shape, device=device),
            **{name: torch.zeros(shape, dtype=torch.bool, device=device) for name in FLAGS},
        }
        self._flat = {name: ring.flatten(0, 1) for name, ring in self._rings.items()}
        self._finals = _FinalObs(shape, spec, device)
        self._waiting: list[Row] = []
        self._laid = self._oldest = 0
        self._last_invalid = -1
        self._exponent = priority_exponent
        self._tree = SumTree(self._slots * spec.num_envs, device) if priority_exponent else None
        self._largest = torch.ones((), device=device)

    @property
    def rows(self) -> int:
        """Rows ever added."""
        return self._laid + len(self._waiting)

    @property
    def oldest(self) -> int:
        """The first row that is still there."""
        return max(self._oldest, self.rows - self.capacity)

    def add(self, obs: Tensor, action: Tensor, step: Step) -> None:
        """Add a row, overwriting the oldest one if the ring is full; see ``Buffer.add``."""
        self._waiting.append((obs, action, step))
        if len(self._waiting) >= min(_WAITING, self.capacity):
            self._lay_waiting()

    def segment(self, start: int, stop: int) -> State:
        """Rows ``start`` to ``stop`` - 1; see ``Buffer.segment``."""
        self._lay_waiting()
        check_range(start, stop, self.oldest, self.rows)
        slots = self._slots_of(start, stop)
        last = (stop - 1) % self._slots
        next_obs = self._finals.where_final(last, self._rings["obs"][stop % self._slots])
        meaningless = self._rings["terminated"][last] | ~self._rings["valid"][last]
        return {
            **{name: ring[slots] for name, ring in self._rings.items()},
            "next_obs": blank(meaningless, next_obs),
            "final_obs": self._finals.of(slots),
        }

    def marks(self) -> State:
        """Priorities of all rows that are there, float32 [rows, N], and the largest ever."""
        if self._tree is None:
            return {}
        self._lay_waiting()
        leaves = self._leaves(self._oldest, self._laid)
        return {"priority": self._tree.weights(leaves), "largest": self._largest.clone()}

    def restore(
        self, rows: int, segments: Sequence[tuple[int, State]], marks: State | None = None
    ) -> None:
        """Hold what a buffer held that had counted to ``rows``; see ``Buffer.restore``."""
        first = check_contiguous(rows, segments)
        self._waiting = []
        self._finals.clear()
        self._last_invalid = -1
        if self._tree is not None:
            self._tree = SumTree(self._slots * self._num_envs, self._device)
            self._largest.fill_(1.0)
        self._laid = self._oldest = max(first, rows - self.capacity)
        for start, segment in segments:
            self._lay(start, segment)
        if self._tree is not None and marks:
            self._largest = marks["largest"].to(self._largest, copy=True)
            # a copy may hold fewer rows, or none: then it has no priority either
            gone = max(0, len(marks["priority"]) - (self._laid - self._oldest))
            priority = marks["priority"][gone:].to(self._largest)
            leaves = self._leaves(self._laid - len(priority), self._laid)
            self._tree.put(leaves.view(-1), priority.reshape(-1))

    def sample(self, batch: int, generator: torch.Generator, gamma: float, steps: int = 1) -> State:
        """Transitions drawn with replacement among the valid ones.

        Args:
            batch: B.
            generator: on the buffer's device.
            gamma: discount factor γ.
            steps: n. A transition is n steps of one episode in a row, or as many as there are
                until it ends or the newest row is reached.

        Returns:
            ``obs`` [B, *observation], ``action`` [B, *action], ``reward`` Σ γ^i r_{t+i} over the
            steps i < k that it has, float32 [B], ``next_obs`` s_{t+k} like ``obs``, ``discount``
            γ^k, or 0 where s_{t+k} is terminal and means nothing, float32 [B], ``index`` int64
            [B] for ``prioritise``, and ``probability`` with which each was drawn, float32 [B].

        Raises:
            IndexError: the buffer has no valid transition.
        """
        self._lay_waiting()
        index, probability = self._draw(batch, generator)
        last, reward, discount = self._walk(index, gamma, steps)
        alive = ~self._flat["terminated"].index_select(0, last)
        successor = (last + self._num_envs) % (self._slots * self._num_envs)
        obs = self._flat["obs"]
        return {
            "obs": obs.index_select(0, index),
            "action": self._flat["action"].index_select(0, index),
            "reward": reward,
            # At a truncation the true final observation, as in Stable-Baselines3.
            "next_obs": self._finals.where_final_at(last, obs.index_select(0, successor)),
            "discount": alive * discount,
            "index": index,
            "probability": probability,
        }

    def sample_runs(self, count: int, steps: int, generator: torch.Generator) -> State:
        """Runs of ``steps`` K rows of one environment, drawn uniformly with replacement.

        Returns:
            ``obs`` [count, K, *observation], ``action`` [count, K, *action], ``reward`` float32
            [count, K], and ``whole`` bool [count]: the run lies in one episode, and every step
            of it is valid.

        Raises:
            IndexError: the buffer has fewer than K rows.
        """
        self._lay_waiting()
        starts = (self._laid - self._oldest - steps + 1) * self._num_envs
        if starts < 1:
            raise IndexError(f"the replay buffer has fewer than {steps} rows")
        pick = torch.randint(starts, (count, 1), generator=generator, device=self._device)
        pick = pick + self._num_envs * torch.arange(steps, device=self._device)
        first = self._oldest % self._slots * self._num_envs
        index = (pick + first) % (self._slots * self._num_envs)
        flat = self._flat
        ended = (flat["terminated"] | flat["truncated"])[index[:, :-1]]
        return {
            **{name: flat[name][index] for name in ("obs", "action", "reward")},
            "whole": ~ended.any(dim=1) & flat["valid"][index].all(dim=1),
        }

    def prioritise(self, index: Tensor, error: Tensor) -> None:
        """Give transitions the priority (|δ| + 1e-6)^α of their new errors.

        Args:
            index: as ``sample`` gave it, int64 [B]; nothing may have been added since.
            error: δ, float32 [B].
        """
        if self._tree is None:
            return
        priority = (error.detach().abs() + _LEAST) ** self._exponent
        self._largest = torch.maximum(self._largest, priority.max())
        self._tree.put(index, priority)

    def _walk(self, index: Tensor, gamma: float, steps: int) -> tuple[Tensor, Tensor, Tensor]:
        """The last row of each n-step transition, its reward, and γ^k of the k steps it has."""
        flat, size = self._flat, self._slots * self._num_envs
        newest = (self._laid - 1) % self._slots
        last, reward = index, flat["reward"].index_select(0, index)
        discount = torch.full_like(reward, gamma)
        going = discount == gamma
        for _ in range(steps - 1):
            going = going & ~(flat["terminated"] | flat["truncated"])[last]
            going &= last // self._num_envs != newest
            last = torch.where(going, (last + self._num_envs) % size, last)
            reward = reward + torch.where(going, discount * flat["reward"][last], 0.0)
            discount = torch.where(going, discount * gamma, discount)
        return last, reward, discount

    def _draw(self, batch: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        count = (self._laid - self._oldest) * self._num_envs
        if count == 0:
            raise IndexError("the replay buffer is empty")
        allowed = None
        if self._last_invalid >= self._oldest:
            leaves = self._leaves(self._oldest, self._laid).view(-1)
            allowed = leaves[self._flat["valid"][leaves]]
            count = len(allowed)
            if count == 0:
                raise IndexError("the replay buffer has no valid transition")
        if self._tree is not None:
            index = self._tree.draw(batch, generator)
            return index, self._tree.weights(index) / self._tree.total
        pick = torch.randint(count, (batch,), generator=generator, device=self._device)
        if allowed is None:
            first = self._oldest % self._slots * self._num_envs
            index = (pick + first) % (self._slots * self._num_envs)
        else:
            index = allowed[pick]
        return index, torch.full((), 1 / count, device=self._device).expand(batch)

    def _slots_of(self, start: int, stop: int) -> Tensor:
        return torch.arange(start, stop, device=self._device) % self._slots

    def _leaves(self, start: int, stop: int) -> Tensor:
        """Where the transitions of these rows lie, int64 [rows, N]."""
        places = torch.arange(self._num_envs, device=self._device)
        return self._slots_of(start, stop)[:, None] * self._num_envs + places

    def _lay_waiting(self) -> None:
        if self._waiting:
            rows, self._waiting = self._waiting, []
            self._lay(self._laid, segment_of(rows))

    def _lay(self, start: int, segment: State) -> None:
        """Write a segment that begins at or before the row that is next."""
        stop = start + len(segment["reward"])
        skip = max(start, self._oldest, stop - self.capacity) - start
        if skip >= stop - start:
            return
        self._drop(max(self._oldest, stop - self.capacity))
        slots = self._slots_of(start + skip, stop)
        for name, ring in self._rings.items():
            ring[slots] = segment[name][skip:].to(ring)
        self._rings["obs"][stop % self._slots] = segment["next_obs"].to(self._device)
        valid = segment["valid"]
        if len(segment["final_obs"]):
            cut = (segment["truncated"] & valid).to(self._device)
            self._finals.put(slots, cut[skip:], segment["final_obs"][int(cut[:skip].sum()) :])
        if not bool(valid.all()):
            for t in (~valid[skip:]).any(dim=1).nonzero().view(-1).tolist():
                self._last_invalid = start + skip + t
        if self._tree is not None:
            leaves = self._leaves(start + skip, stop).view(-1)
            self._tree.put(leaves, self._flat["valid"][leaves] * self._largest)
        self._laid = stop

    def _drop(self, oldest: int) -> None:
        """Forget the rows before ``oldest``."""
        if oldest > self._oldest and self._laid > self._oldest:
            slots = self._slots_of(self._oldest, min(oldest, self._laid))
            self._finals.drop(slots)
            if self._tree is not None:
                gone = self._leaves(self._oldest, min(oldest, self._laid)).view(-1)
                self._tree.put(gone, torch.zeros(len(gone), device=self._device))
        self._oldest = oldest


class _FinalObs:
    """The final observations of truncated steps: a ring of its own, first in, first out.

    It doubles when it is full: how many of the live rows were truncated isn't known before.
    """

    def __init__(self, shape: tuple[int, int], spec: EnvSpec, device: str) -> None:
        self._index = torch.full(shape, -1, dtype=torch.int32, device=device)
        self._data = _empty((shape[1],), spec.observation, device)
        self._head = self._live = 0

    def put(self, slots: Tensor, mask: Tensor, final_obs: Tensor) -> None:
        """Put those of several rows, given in their order; ``mask`` bool [rows, N]."""
        while self._live + len(final_obs) > len(self._data):
            self._grow()
        number = mask.view(-1).cumsum(0).view(mask.shape) - 1
        place = (number + self._head + self._live) % len(self._data)
        self._index[slots] = torch.where(mask, place, -1).to(torch.int32)
        self._data[place[mask]] = final_obs.to(self._data)
        self._live += len(final_obs)

    def drop(self, slots: Tensor) -> None:
        """Forget those of the oldest rows; a slot without any says so already."""
        if self._live:
            count = int((self._index[slots] >= 0).sum())
            self._head = (self._head + count) % len(self._data)
            self._live -= count
            self._index[slots] = -1

    def clear(self) -> None:
        self._index.fill_(-1)
        self._head = self._live = 0

    def of(self, slots: Tensor) -> Tensor:
        index = self._index[slots].view(-1)
        return self._data[index[index >= 0].long()]

    def where_final(self, slot: int, otherwise: Tensor) -> Tensor:
        return self._choose(self._index[slot], otherwise)

    def where_final_at(self, index: Tensor, otherwise: Tensor) -> Tensor:
        if self._live == 0:
            return otherwise
        return self._choose(self._index.view(-1).index_select(0, index), otherwise)

    def _choose(self, place: Tensor, otherwise: Tensor) -> Tensor:
        final = self._data.index_select(0, place.clamp(min=0))
        return torch.where(spread(place >= 0, otherwise), final, otherwise)

    def _grow(self) -> None:
        size = len(self._data)
        order = (torch.arange(size, device=self._data.device) + self._head) % size
        self._data = torch.cat([self._data[order], torch.empty_like(self._data)])
        moved = (self._index - self._head) % size
        self._index = torch.where(self._index >= 0, moved, self._index).to(torch.int32)
        self._head = 0


def _empty(shape: tuple[int, ...], space: Space, device: str) -> Tensor:
    element, dtype = tensor_form(space)
    return torch.zeros((*shape, *element), dtype=dtype, device=device)
