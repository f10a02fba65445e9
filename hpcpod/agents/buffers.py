"""The two memories of deep RL: a rollout that is used once, and a ring that is sampled from.

Neither stores a successor twice: the successor of row t is the observation of row t + 1, but
for truncated steps, whose true final observation is kept aside. Terminated steps need none:
their future is worth nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from hpcpod.envs.vec_env import EnvSpec, Space, State, Step, tensor_form


class RolloutBuffer:
    """The rows since the last update, for on-policy algorithms; ``restore(rows, ())`` empties it.

    It keeps the tensors it is given, without a copy.
    """

    capacity = 0
    """Nothing outlives an update."""

    def __init__(self) -> None:
        self._rows: list[tuple[Tensor, Tensor, Step]] = []
        self._oldest = 0

    @property
    def rows(self) -> int:
        """Rows ever added."""
        return self._oldest + len(self._rows)

    @property
    def oldest(self) -> int:
        """The first row that is still there."""
        return self._oldest

    def add(self, obs: Tensor, action: Tensor, step: Step) -> None:
        """Add a row; see ``Buffer.add``."""
        self._rows.append((obs, action, step))

    def segment(self, start: int, stop: int) -> State:
        """Rows ``start`` to ``stop`` - 1; see ``Buffer.segment``."""
        _check_range(self, start, stop)
        part = self._rows[start - self._oldest : stop - self._oldest]
        steps = [step for _, _, step in part]
        truncated = torch.stack([step.truncated for step in steps])
        valid = torch.stack([step.valid for step in steps])
        return {
            "obs": torch.stack([obs for obs, _, _ in part]),
            "action": torch.stack([action for _, action, _ in part]),
            "reward": torch.stack([step.reward for step in steps]),
            "terminated": torch.stack([step.terminated for step in steps]),
            "truncated": truncated,
            "valid": valid,
            "next_obs": _blank(steps[-1].terminated | ~steps[-1].valid, steps[-1].next_obs),
            "final_obs": torch.stack([step.next_obs for step in steps])[truncated & valid],
        }

    def restore(self, rows: int, segments: Sequence[tuple[int, State]]) -> None:
        """Hold what a buffer held that had counted to ``rows``; see ``Buffer.restore``."""
        first = _check_contiguous(rows, segments)
        self._rows = []
        self._oldest = first
        for _, segment in segments:
            for obs, action, step in _rows_of(segment):
                self.add(obs, action, step)


class ReplayBuffer:
    """A ring of the last rows, for off-policy algorithms.

    Row k lies at slot k % (capacity + 1). The one slot more holds the successor of the newest
    row, so every row that is there can be sampled, and none reaches across the seam.
    """

    def __init__(self, spec: EnvSpec, capacity: int, device: str = "cpu") -> None:
        """Reserve memory for ``max(1, capacity // num_envs)`` rows (capacity: transitions)."""
        self.capacity = max(1, capacity // spec.num_envs)
        """Rows that the ring holds."""
        self._slots = self.capacity + 1
        self._device = device
        shape = (self._slots, spec.num_envs)
        self._obs = _empty(shape, spec.observation, device)
        self._action = _empty(shape, spec.action, device)
        self._reward = torch.zeros(shape, device=device)
        self._terminated = torch.zeros(shape, dtype=torch.bool, device=device)
        self._truncated = torch.zeros(shape, dtype=torch.bool, device=device)
        self._valid = torch.zeros(shape, dtype=torch.bool, device=device)
        self._rings = {
            "obs": self._obs,
            "action": self._action,
            "reward": self._reward,
            "terminated": self._terminated,
            "truncated": self._truncated,
            "valid": self._valid,
        }
        self._finals = _FinalObs(shape, spec, device)
        self._rows = self._oldest = 0
        self._last_invalid = -1

    @property
    def rows(self) -> int:
        """Rows ever added."""
        return self._rows

    @property
    def oldest(self) -> int:
        """The first row that is still there."""
        return self._oldest

    def add(self, obs: Tensor, action: Tensor, step: Step) -> None:
        """Add a row, overwriting the oldest one if the ring is full; see ``Buffer.add``."""
        slot = self._rows % self._slots
        self._obs[slot] = obs
        self._action[slot] = action
        self._reward[slot] = step.reward
        self._terminated[slot] = step.terminated
        self._truncated[slot] = step.truncated
        self._valid[slot] = step.valid
        self._finals.put(slot, step.truncated & step.valid, step.next_obs)
        if not bool(step.valid.all()):
            self._last_invalid = self._rows
        self._rows += 1
        self._obs[self._rows % self._slots] = step.next_obs
        if self._rows - self._oldest > self.capacity:
            self._oldest += 1
        # The slot of the newest successor was the last of the row that was dropped.
        self._finals.drop(self._rows % self._slots)

    def segment(self, start: int, stop: int) -> State:
        """Rows ``start`` to ``stop`` - 1; see ``Buffer.segment``."""
        _check_range(self, start, stop)
        slots = torch.arange(start, stop, device=self._device) % self._slots
        last = (stop - 1) % self._slots
        next_obs = self._finals.where_final(last, self._obs[stop % self._slots])
        meaningless = self._terminated[last] | ~self._valid[last]
        return {
            **{name: ring[slots] for name, ring in self._rings.items()},
            "next_obs": _blank(meaningless, next_obs),
            "final_obs": self._finals.of(slots),
        }

    def restore(self, rows: int, segments: Sequence[tuple[int, State]]) -> None:
        """Hold what a buffer held that had counted to ``rows``; see ``Buffer.restore``."""
        first = _check_contiguous(rows, segments)
        self._finals.clear()
        self._last_invalid = -1
        self._rows, self._oldest = rows, max(first, rows - self.capacity)
        for start, segment in segments:
            self._put_segment(start, segment)

    def _put_segment(self, start: int, segment: State) -> None:
        stop, skip = start + len(segment["reward"]), max(0, self._oldest - start)
        if start + skip >= stop:
            return
        slots = torch.arange(start + skip, stop, device=self._device) % self._slots
        for name, ring in self._rings.items():
            ring[slots] = segment[name][skip:].to(ring)
        final = segment["truncated"] & segment["valid"]
        self._finals.extend(slots, final[skip:], segment["final_obs"][int(final[:skip].sum()) :])
        self._obs[stop % self._slots] = segment["next_obs"].to(self._obs)
        invalid = (~segment["valid"][skip:]).any(dim=1).nonzero()
        if len(invalid):
            self._last_invalid = start + skip + int(invalid[-1])

    def sample(self, batch: int, generator: torch.Generator) -> State:
        """Transitions drawn uniformly, with replacement, among the valid ones.

        Returns:
            ``obs`` [batch, *observation], ``action`` [batch, *action], ``reward`` float32
            [batch], ``next_obs`` like ``obs``, ``terminated`` bool [batch]. Where
            ``terminated``, ``next_obs`` means nothing.

        Raises:
            IndexError: the buffer has no valid transition.
        """
        pick = self._draw(batch, generator)
        num_envs = self._reward.shape[1]
        slot = (self._oldest + pick // num_envs) % self._slots
        env = pick % num_envs
        index = slot * num_envs + env
        successor = (slot + 1) % self._slots * num_envs + env
        obs = self._obs.flatten(0, 1)
        return {
            "obs": obs.index_select(0, index),
            "action": self._action.flatten(0, 1).index_select(0, index),
            "reward": self._reward.view(-1).index_select(0, index),
            "next_obs": self._finals.where_final_at(index, obs.index_select(0, successor)),
            "terminated": self._terminated.view(-1).index_select(0, index),
        }

    def _draw(self, batch: int, generator: torch.Generator) -> Tensor:
        live, num_envs = self._rows - self._oldest, self._reward.shape[1]
        if self._last_invalid < self._oldest:
            if live == 0:
                raise IndexError("the replay buffer is empty")
            return torch.randint(
                live * num_envs, (batch,), generator=generator, device=self._device
            )
        slots = torch.arange(self._oldest, self._rows, device=self._device) % self._slots
        allowed = self._valid[slots].view(-1).nonzero().view(-1)
        if len(allowed) == 0:
            raise IndexError("the replay buffer has no valid transition")
        pick = torch.randint(len(allowed), (batch,), generator=generator, device=self._device)
        return allowed[pick]


class _FinalObs:
    """The final observations of truncated steps: a ring of its own, first in, first out.

    It doubles when it is full: how many of the live rows were truncated isn't known before.
    """

    def __init__(self, shape: tuple[int, int], spec: EnvSpec, device: str) -> None:
        self._index = torch.full(shape, -1, dtype=torch.int32, device=device)
        self._count = [0] * shape[0]
        self._data = _empty((shape[1],), spec.observation, device)
        self._head = self._live = 0

    def put(self, slot: int, mask: Tensor, next_obs: Tensor) -> None:
        where = mask.nonzero().view(-1)
        count = len(where)
        if count == 0:
            return
        while self._live + count > len(self._data):
            self._grow()
        place = (torch.arange(count, device=where.device) + (self._head + self._live)) % len(
            self._data
        )
        self._data[place] = next_obs[where]
        self._index[slot, where] = place.to(torch.int32)
        self._count[slot] = count
        self._live += count

    def extend(self, slots: Tensor, mask: Tensor, final_obs: Tensor) -> None:
        """Put the final observations of several rows, given in their order."""
        while self._live + len(final_obs) > len(self._data):
            self._grow()
        mask = mask.to(self._index.device)
        number = mask.view(-1).cumsum(0).view(mask.shape) - 1
        place = (number + self._head + self._live) % len(self._data)
        self._data[place[mask]] = final_obs.to(self._data)
        self._index[slots] = torch.where(mask, place, -1).to(torch.int32)
        for slot, count in zip(slots.tolist(), mask.sum(1).tolist(), strict=True):
            self._count[slot] = count
        self._live += len(final_obs)

    def drop(self, slot: int) -> None:
        count = self._count[slot]
        if count:
            self._index[slot] = -1
            self._count[slot] = 0
            self._head = (self._head + count) % len(self._data)
            self._live -= count

    def clear(self) -> None:
        self._index.fill_(-1)
        self._count = [0] * len(self._count)
        self._head = self._live = 0

    def of(self, slots: Tensor) -> Tensor:
        index = self._index[slots].view(-1)
        return self._data[index[index >= 0].long()]

    def where_final(self, slot: int, otherwise: Tensor) -> Tensor:
        return self._choose(self._index[slot], otherwise)

    def where_final_at(self, index: Tensor, otherwise: Tensor) -> Tensor:
        return self._choose(self._index.view(-1).index_select(0, index), otherwise)

    def _choose(self, place: Tensor, otherwise: Tensor) -> Tensor:
        final = self._data.index_select(0, place.clamp(min=0))
        mask = (place >= 0).view(-1, *[1] * (otherwise.dim() - 1))
        return torch.where(mask, final, otherwise)

    def _grow(self) -> None:
        size = len(self._data)
        order = (torch.arange(size, device=self._data.device) + self._head) % size
        self._data = torch.cat([self._data[order], torch.empty_like(self._data)])
        self._index = torch.where(
            self._index >= 0, (self._index - self._head) % size, self._index
        ).to(torch.int32)
        self._head = 0


def _empty(shape: tuple[int, ...], space: Space, device: str) -> Tensor:
    element, dtype = tensor_form(space)
    return torch.zeros((*shape, *element), dtype=dtype, device=device)


def _blank(where: Tensor, obs: Tensor) -> Tensor:
    """The same with zeros in rows that mean nothing, so that equal segments are equal bytes."""
    return obs.masked_fill(where.view(-1, *[1] * (obs.dim() - 1)), 0)


def _check_range(buffer: RolloutBuffer | ReplayBuffer, start: int, stop: int) -> None:
    if not buffer.oldest <= start < stop <= buffer.rows:
        raise IndexError(
            f"rows {start} to {stop} were asked for, but {buffer.oldest} to {buffer.rows} are here"
        )


def _check_contiguous(rows: int, segments: Sequence[tuple[int, State]]) -> int:
    """The first row that the segments cover."""
    end = segments[0][0] if segments else rows
    for start, segment in segments:
        if start != end:
            raise ValueError(f"a replay segment begins at row {start}, but row {end} is next")
        end = start + len(segment["reward"])
    if end != rows:
        raise ValueError(f"the replay segments end at row {end}, but the buffer counted {rows}")
    return segments[0][0] if segments else rows


def _rows_of(segment: State) -> list[tuple[Tensor, Tensor, Step]]:
    """The rows as they were added: their successors are put together again."""
    next_obs = torch.cat([segment["obs"][1:], segment["next_obs"][None]])
    next_obs[segment["truncated"] & segment["valid"]] = segment["final_obs"]
    return [
        (
            segment["obs"][t],
            segment["action"][t],
            Step(
                obs=next_obs[t],
                reward=segment["reward"][t],
                terminated=segment["terminated"][t],
                truncated=segment["truncated"][t],
                next_obs=next_obs[t],
                valid=segment["valid"][t],
            ),
        )
        for t in range(len(segment["reward"]))
    ]
