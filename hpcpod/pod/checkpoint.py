"""A pod's whole state as blobs: a small core, and the replay buffer's new rows as segments."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch

from hpcpod.agents.base import Agent, Buffer
from hpcpod.agents.fusion import fusion_rule
from hpcpod.agents.segments import cut_off, newest
from hpcpod.envs.vec_env import State
from hpcpod.errors import Corrupt
from hpcpod.pod.ranks.communicator import ALONE, Communicator
from hpcpod.pod.ranks.consensus import together
from hpcpod.records.records import Checkpoint, Part, Segment, decode, encode
from hpcpod.storage.blobs import Arrays, Blobs

log = logging.getLogger(__name__)

SEGMENT_ROWS_BYTES = 64 * 2**20
"""A segment holds about this many bytes at most, so that writing one needs little memory."""

_OWN = ("buffer", "worker", "fusion")
"""Extra states of which each rank has its own."""


class Checkpoints:
    """Saves and restores one pod, remembering which replay rows lie in blobs already."""

    def __init__(self, blobs: Blobs, meta: Mapping[str, Any], group: Communicator = ALONE) -> None:
        self._blobs = blobs
        self._meta = dict(meta)
        self._group = group
        self._segments: list[Segment] = []
        self._rows: Part | None = None
        self._marks: State | None = None

    def save(
        self,
        agent: Agent,
        buffer: Buffer,
        env_steps: int,
        extra: Mapping[str, State] | None = None,
        *,
        equal: bool = True,
    ) -> Checkpoint:
        """Write the agent, the rows that no segment holds yet, and ``extra`` named states.

        The blobs are durable before the checkpoint that names them is returned. Of several ranks,
        all of which must call this, the first one writes the agent, which they share, and each
        its own rows, ``extra`` and what of the agent is local; all get the same checkpoint.

        Args:
            agent: of this rank.
            buffer: of this rank.
            env_steps: experience of the pod.
            extra: of this rank.
            equal: whether the ranks' agents are equal; if not, each writes the whole of its own.

        Raises:
            StorageError: the filesystem refused, here or on another rank.
            RankLost: another rank is gone.
        """
        whole = not equal or self._group.rank == 0
        own = together(
            self._group, lambda: self.save_own(agent, buffer, env_steps, extra, whole=whole)
        )
        if self._group.size == 1:
            return own
        texts = self._group.gather(json.dumps(encode(own)))
        first, *others = (decode(Checkpoint, json.loads(text)) for text in texts)
        return replace(first, others=tuple(part for other in others for part in other.parts))

    def save_own(
        self,
        agent: Agent,
        buffer: Buffer,
        env_steps: int,
        extra: Mapping[str, State] | None = None,
        *,
        whole: bool = True,
    ) -> Checkpoint:
        """Write what this rank has, and exchange nothing.

        Args:
            agent, buffer, env_steps, extra: as for ``save``.
            whole: the whole agent, or what of it is local.

        Raises:
            StorageError: the filesystem refused.
        """
        segments = self._save_rows(buffer)
        state = agent.state() if whole else local(agent, agent.state())
        parts: dict[str, State] = {"agent": state, "buffer": buffer.marks(), **(extra or {})}
        arrays = {
            f"{part}/{name}": tensor.detach().cpu().numpy()
            for part, state in parts.items()
            for name, tensor in state.items()
        }
        rank = self._group.rank
        meta = {"rank": rank} if rank else {}
        core = self._blobs.put(
            arrays, {**self._meta, **meta, "env_steps": env_steps, "rows": buffer.rows}
        )
        # Not before: what is put again after a failure is young again, and is not pruned.
        self._segments = segments
        return Checkpoint(core, env_steps, buffer.rows, tuple(segments), rank)

    def load(
        self, checkpoint: Checkpoint, agent: Agent, *, inside: bool = False
    ) -> dict[str, State]:
        """Restore the agent; return the extra states by name. ``fill`` restores the buffer.

        A rank of which the checkpoint holds no part takes another's agent and rows, and no
        ``worker``: its parent had fewer ranks, or it was lost.

        Args:
            checkpoint: of an agent of this kind.
            agent: takes over the state.
            inside: the checkpoint lies inside a round, which can't go on in environments of
                another engine; at a round's end theirs are left out.

        Raises:
            Corrupt: a blob is missing or does not match its name, or holds the states of
                environments of another engine.
        """
        parts = self._parts(checkpoint.core, inside)
        state = parts.pop("agent", {})
        if not state and agent.state():  # there are agents without any
            raise Corrupt(f"checkpoint {checkpoint.core[:12]} holds no agent")
        # A survivor's checkpoint has none: its agent is newer than what the others saved.
        saved_together = "fusion" in parts
        members = checkpoint.parts
        found = checkpoint.part(self._group.rank)
        own = found or members[self._group.rank % len(members)]
        if own.rank != checkpoint.rank:
            beside = self._parts(own.core, inside)
            its = beside.pop("agent", {})
            parts = {name: part for name, part in parts.items() if name not in _OWN}
            parts |= {name: part for name, part in beside.items() if name in _OWN}
            if not saved_together:
                its = local(agent, its)
                parts.pop("fusion", None)
            state = state | its
        if found is None:  # a rank more than the parent had, or one that was lost
            parts.pop("worker", None)
        agent.load(state)
        self._rows, self._marks = own, parts.pop("buffer", None)
        return parts

    def fill(
        self, buffer: Buffer, num_envs: int, *, most_rows: int | None = None, cut: bool = False,
        kept: bool = False,
    ) -> None:  # fmt: skip
        """Restore the buffer of the checkpoint that was loaded last; without one nothing is done.

        Args:
            buffer: takes over the rows.
            num_envs: environments of its rows: those of another number of them, as another run may
                have, are left out.
            most_rows: take the newest rows alone, no more than these.
            cut: the environments begin anew: no episode goes on behind the last row.
            kept: the buffer holds just these rows already, so that none is read.

        Raises:
            Corrupt: a blob is missing or does not match its name.
        """
        own = self._rows
        if own is None:
            return
        first = 0 if most_rows is None else own.rows - most_rows
        segments = [replace(s, start=max(s.start, first)) for s in own.segments if s.stop > first]
        if cut and segments:
            # Blobs never change: the checkpoint says that an episode is cut.
            segments[-1] = replace(segments[-1], cut=True)
        rows = [] if kept else [(s.start, read_segment(self._blobs, s)) for s in segments]
        if rows and (theirs := rows[0][1]["reward"].shape[1]) != num_envs:
            # Of one environment they were taken for each of eight, and truncations for others'.
            log.warning("rows of %d environments are no rows of %d: none is kept", theirs, num_envs)
            rows, segments = [], []
        self._segments = segments
        if not kept:
            buffer.restore(own.rows, rows, self._marks)

    def _parts(self, core: str, inside: bool) -> dict[str, State]:
        arrays, meta = read_blob(self._blobs, core)
        parts: dict[str, State] = {}
        for name, array in arrays.items():
            part, _, key = name.partition("/")
            parts.setdefault(part, {})[key] = torch.from_numpy(array)
        engine = _engine(meta)
        if "worker" in parts and engine != _engine(self._meta):
            said = f"checkpoint {core[:12]} has the states of environments of {engine}"
            if inside:
                raise Corrupt(said)
            # To restore them raised, and the pod paid for it.
            log.warning("%s: they begin anew", said)
            del parts["worker"]
        return parts

    def _save_rows(self, buffer: Buffer) -> list[Segment]:
        segments = [s for s in self._segments if s.stop > buffer.oldest]
        start = max(buffer.oldest, segments[-1].stop if segments else 0)
        while start < buffer.rows:
            row = buffer.segment(start, start + 1)  # for its size alone
            row_bytes = sum(t.numel() * t.element_size() for t in row.values())
            stop = min(buffer.rows, start + max(1, SEGMENT_ROWS_BYTES // max(1, row_bytes)))
            state = buffer.segment(start, stop)
            arrays = {name: tensor.detach().cpu().numpy() for name, tensor in state.items()}
            digest = self._blobs.put(arrays, {"kind": "segment", "start": start, "stop": stop})
            segments.append(Segment(start, stop, digest))
            start = stop
        return segments


def local(agent: Agent, state: State) -> State:
    """The part of an agent's state that each rank keeps to itself."""
    return {name: tensor for name, tensor in state.items() if fusion_rule(agent, name) == "local"}


def read_blob(blobs: Blobs, sha256: str) -> tuple[Arrays, dict[str, Any]]:
    """The arrays and the metadata of a blob that a checkpoint names.

    Raises:
        Corrupt: it does not match its name, or it is gone: the process that found the damage
            first has moved it into quarantine, and for later ones it is just as lost.
    """
    if not blobs.has(sha256):
        raise Corrupt(f"blob {sha256} is missing: there is no {blobs.path(sha256)}")
    return blobs.get(sha256)


def read_segment(blobs: Blobs, segment: Segment) -> State:
    """Rows that a checkpoint names, as ``Buffer.segment`` gives them; raises what ``read_blob``
    does."""
    arrays, _ = read_blob(blobs, segment.sha256)
    whole = {name: torch.from_numpy(array) for name, array in arrays.items()}
    state = newest(whole, segment.stop - segment.start)
    return cut_off(state) if segment.cut else state


def _engine(meta: Mapping[str, Any]) -> str | None:
    engine: str | None = meta.get("spec", {}).get("engine")
    return engine
