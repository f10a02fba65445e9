"""Play an exported policy in its environment: observations to check it on, and a score."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hpcpod._student_t import t_quantile
from hpcpod.config.schema import EnvConfig
from hpcpod.deploy.checks import Differs, Exported
from hpcpod.deploy.environment_terms import in_parts, to_agent
from hpcpod.deploy.observations import Inputs, some
from hpcpod.envs.arrays import Array, form_of
from hpcpod.envs.vec_env import EnvSpec
from hpcpod.errors import HpcpodError, in_words
from hpcpod.pod.evaluator import PanelEvaluator, Stopped
from hpcpod.pod.factory import EnvFactory
from hpcpod.pod.finals import equal_spaces
from hpcpod.pod.policy import Policy
from hpcpod.tournament.statistics import mean, sd

EPISODES = 16
"""Episodes that an exported policy plays."""
SEEDS = "export"
"""The name of the panel that it plays: seeds that no evaluation of a run has."""
PATIENCE = 60.0
"""Seconds after which it is scored no further."""
ALONE = 5.0
"""Seconds of processor time that this process plays for, before others are started to step a part
of the environments each: to start two took six of them, and sixteen episodes of Ant take one."""
FEWEST = 8
"""Episodes of a score that it is compared with at least; by two, 5 % of true exports failed."""
_MOST_PANELS = 32
_MOST_BATCHES = 64
"""Batches of observations that are kept while it plays."""
_SURE = 0.999
"""Level of the exported policy's own interval in ``check_score``."""


@dataclass
class Player:
    """An exported policy that acts for the evaluator, and keeps some of what it observes."""

    act_exported: Exported
    spec: EnvSpec
    kept: list[Array] = field(default_factory=list)
    until: float = math.inf
    """The second of ``time.monotonic`` at which its patience ends, from its first act on: an
    environment may take a minute to be made."""
    alone: float = math.inf
    """Seconds of processor time after which it plays no more, from its first act on."""
    _stride: int = 1
    _step: int = 0

    def tired(self) -> bool:
        """True once it plays no more."""
        begun = self._step > 0
        return begun and (time.monotonic() > self.until or time.process_time() > self.alone)

    def act(self, obs: Tensor, *, explore: bool) -> Tensor:
        """See ``Agent.act``; it never explores."""
        rows = obs.cpu().numpy()
        if self._step == 0:
            self.until = time.monotonic() + PATIENCE
            self.alone += time.process_time()
        if self._step % self._stride == 0:
            self.kept.append(rows.copy())
        if len(self.kept) > _MOST_BATCHES:  # every other one: the whole time is in them
            self.kept, self._stride = self.kept[::2], 2 * self._stride
        self._step += 1
        return to_agent(self.spec, self.act_exported(in_parts(self.spec, rows))).to(obs.device)


@dataclass(frozen=True)
class Played:
    """Episodes of an exported policy."""

    returns: tuple[float, ...]
    """Empty if they took too long."""
    engine: str
    met: Inputs
    """Observations that it met, at most those asked for."""


def played(
    exported: Exported, spec: EnvSpec, env: EnvConfig, episodes: int, observations: int,
    alone: float = math.inf,
) -> Played | str:  # fmt: skip
    """Play an exported policy on seeds of its own.

    Args:
        exported: the policy.
        spec: of the environment that the policy is for.
        env: the environment to make.
        episodes: to play, side by side.
        observations: to keep, at most.
        alone: seconds of this process's own time after which it is scored no further.

    Returns:
        What came of it; or the reason why it could not be played here.
    """
    player: Any = Player(exported, spec, alone=alone)
    returns: tuple[float, ...] = ()
    try:
        with closing(PanelEvaluator(EnvFactory(env, "cpu"))) as evaluator:
            found = evaluator.env(episodes).spec
            engine = found.engine
            if not equal_spaces(found, spec):
                return f"{env.id} has other spaces here"
            for panel in range(_MOST_PANELS):  # one is enough but for episodes of a few steps
                done = evaluator.evaluate(
                    player, SEEDS, panel, episodes=episodes,
                    should_stop=player.tired,
                )  # fmt: skip
                returns = returns or done
                if sum(map(len, player.kept)) >= observations:
                    break
    except Stopped:
        pass
    except HpcpodError as error:
        return str(error)
    except Exception as error:  # of a user's environment
        return f"its environment raised {in_words(error)}"
    rows = np.concatenate(player.kept)
    return Played(returns, engine, some(in_parts(spec, rows), observations))


def score_of(policy: Policy) -> dict[str, Any]:
    """The score that a run has of a policy, as in ``best.json``; empty if it has none."""
    score = policy.about.get("score")
    if not isinstance(score, Mapping):
        return {}
    numbers = [score.get(name) for name in ("mean", "low", "high", "episodes")]
    # another user may have written it
    if not all(isinstance(each, int | float) and math.isfinite(each) for each in numbers):
        return {}
    return {**score, "episodes": int(score["episodes"])}


def check_score(returns: tuple[float, ...], score: Mapping[str, Any]) -> None:
    """See that the returns of an exported policy fit the score that its run has.

    They do if |m - M| <= H + t s / √n: m of n returns, M and H the run's mean and the half of its
    interval, t Student's quantile at 99.9 %, and s the larger standard deviation of the two
    samples. Of true exports at most 2 in 10,000 fail it (``benchmarks/deploy.py``, false_refusals:
    normal, skewed and rarely failing returns), if both have at least ``FEWEST`` episodes.

    Raises:
        Differs: they do not.
    """
    centre, n = mean(returns), len(returns)
    up = float(score["high"]) - float(score["mean"])
    down = float(score["mean"]) - float(score["low"])
    of_run = int(score["episodes"])
    half = max(up, down) if centre < float(score["mean"]) else up
    spread = up / t_quantile(0.975, of_run - 1) * math.sqrt(of_run) if of_run > 1 else math.inf
    own = t_quantile((1 + _SURE) / 2, n - 1) * max(sd(returns), spread) / math.sqrt(n)
    rounding = 1e-6 * abs(centre)
    if abs(centre - float(score["mean"])) > half + own + rounding:
        raise Differs(
            f"policy.onnx is refused: it scores {centre:.4g} in {n} episodes, and the run says"
            f" {score['mean']:.4g}, from {score['low']:.4g} to {score['high']:.4g}; the environment"
            " here may be another one; nothing was written"
        )


def rows_of(spec: EnvSpec, count: int) -> Tensor:
    """Zero rows that the agent reads: an example for torch's exporter."""
    shape, dtype = form_of(spec.observation)
    return torch.from_numpy(np.zeros((count, *shape), dtype)).to(spec.device)
