"""``python -m hpcpod.deploy.scorer FOLDER``: a process that plays episodes of an evaluation."""

from __future__ import annotations

import argparse
import json
import logging
import signal
import sys
from contextlib import closing
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Protocol, runtime_checkable

import torch

from hpcpod import plugins
from hpcpod._process import REQUEUE, StopFlag, die_with_parent
from hpcpod.config.schema import EnvConfig
from hpcpod.deploy.score_folder import Chunk, Score, ScoreFolder
from hpcpod.envs.make import configured
from hpcpod.envs.threads import set_env_threads
from hpcpod.envs.vec_env import Discrete, EnvSpec, MultiDiscrete, Space, VecEnv
from hpcpod.errors import HpcpodError, UserError, exit_code
from hpcpod.launchers.identity import identity
from hpcpod.pod.evaluator import Stopped, play
from hpcpod.pod.finals import equal_spaces, final_env
from hpcpod.pod.policy import Policy, load_policy_file
from hpcpod.records.codec import encode
from hpcpod.storage.disk import Disk

log = logging.getLogger("hpcpod.deploy.scorer")


@runtime_checkable
class Blocked(Protocol):
    """An environment whose episodes are stretches of recorded data."""

    def blocks(self, seeds: torch.Tensor) -> tuple[int, ...]:
        """The stretch of each seed's first episode."""
        ...


class Player:
    """Plays chunks. It keeps the last environment and a few policies, for the next chunk."""

    def __init__(self, folder: ScoreFolder) -> None:
        self._policy = lru_cache(maxsize=4)(lambda name: load(folder.policy(name)))
        self._env: tuple[str, VecEnv] | None = None

    def play(self, chunk: Chunk, stop: StopFlag) -> Score:
        """The returns of a chunk's episodes.

        Raises:
            Stopped: ``stop`` became true.
            UserError: the environment can't be made, has other spaces than the policy, or an
                episode of it does not end.
            HpcpodError: the policy can't be read, or gives what is no number.
        """
        policy = self._policy(chunk.policy)
        env = self._made(chunk, policy.spec)
        seeds = torch.tensor(chunk.seeds, dtype=torch.int64)
        longest = chunk.env.longest_episode
        returns = play(env, policy.agent, seeds, longest=longest, should_stop=lambda: bool(stop))
        # An environment of recorded data plays some of it again and again: that is no new sample.
        blocks = env.blocks(seeds) if isinstance(env, Blocked) else ()
        return Score(returns, env.spec.engine, env.spec.seeded, blocks)

    def _made(self, chunk: Chunk, spec: EnvSpec) -> VecEnv:
        wanted = json.dumps([encode(chunk.env), len(chunk.seeds)], sort_keys=True)
        if self._env is None or self._env[0] != wanted:
            self.close()
            self._env = wanted, make(chunk.env, spec, len(chunk.seeds))
        env = self._env[1]
        if not equal_spaces(env.spec, spec):  # another policy's may have been the same
            raise UserError(f"it needs {spaces(spec)}, and {chunk.env.id} has {spaces(env.spec)}")
        return env

    def close(self) -> None:
        """Close its environment."""
        if self._env is not None:
            self._env[1].close()
        self._env = None


def load(path: Path) -> Policy:
    """A policy of the folder; whoever put it there has looked whose it is.

    Raises:
        Corrupt: it is another one than its name says.
    """
    Disk().read(path, None, path.stem)
    return load_policy_file(path, trust=True)


def make(env: EnvConfig, spec: EnvSpec, rows: int) -> VecEnv:
    """The batch in which a policy is scored: gymnasium's own where it has the same task."""
    alone = replace(env, processes=1, num_envs=rows)  # each core has a process of its own already
    found = final_env(alone, "cpu", spec)
    return configured(alone if found is None else found[0], rows, "cpu")


def spaces(spec: EnvSpec) -> str:
    """The spaces of an environment, in a few words."""
    bounds = "" if spec.action_bounds is None else " in [{}, {}]".format(*spec.action_bounds)
    return f"observations {_named(spec.observation)} and actions {_named(spec.action)}{bounds}"


def _named(space: Space) -> str:
    if isinstance(space, Discrete):
        return f"Discrete({space.n})"
    if isinstance(space, MultiDiscrete):
        return f"MultiDiscrete{space.nvec}"
    return f"Box{space.shape}" + ("" if space.dtype == "float32" else f" of {space.dtype}")


def serve(folder: ScoreFolder, name: str, owner: str, stop: StopFlag) -> int:
    """Play chunks until others have all that is left; return the exit code."""
    work = folder.work(name)
    plugins.look_in(work.modules)
    torch.set_num_threads(1)
    set_env_threads(1)
    with closing(Player(folder)) as player:
        for chunk in folder.take(work, owner):
            try:
                folder.put(chunk, player.play(chunk, stop))
            except Stopped:
                folder.free(work, chunk)
                return REQUEUE
            except HpcpodError as error:
                folder.refuse(work, chunk, str(error))
                return 0  # whoever waits for it says so
    return 0


def main(arguments: list[str] | None = None) -> int:
    """``python -m hpcpod.deploy.scorer FOLDER``."""
    parser = argparse.ArgumentParser(prog="python -m hpcpod.deploy.scorer", description=__doc__)
    parser.add_argument("folder", type=Path, help="the folder of scores")
    parser.add_argument("--token", help="the work in it; by default a line on standard input")
    parser.add_argument("--name", help="of this process (default: from Slurm's environment)")
    parser.add_argument("--parent", type=int, help="end when this process ends")
    options = parser.parse_args(arguments)
    stop = StopFlag((signal.SIGTERM, signal.SIGUSR2))  # first: without a handler SIGUSR2 kills
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    if options.parent is not None:
        die_with_parent(options.parent)
    owner = options.name or identity(None, None, guest=False).slot
    folder = ScoreFolder(options.folder)
    # torch is imported by now, while whoever has started this looks for what is to be played
    token = options.token or sys.stdin.readline().strip()
    if not token:
        return 0  # there is nothing to play
    return exit_code(lambda: serve(folder, token, owner, stop), log.error)


if __name__ == "__main__":
    sys.exit(main())
