"""``TradingVecEnv``: thousands of portfolios that step as one batch, on the agent's device.

At the end of a bar the policy sees features of every stock and its own weights. Its orders are
filled in the next bar, by ``Rules``; the reward is the growth of the account's logarithm until the
next decision, in percent. An episode is a window of ``sessions`` days drawn by its seed.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from hpcpod.envs import seeding
from hpcpod.envs.backend import TensorBackend, Wanted
from hpcpod.envs.vec_env import (
    Box,
    EnvSpec,
    Step,
    episode_seeds,
    given_seeds,
)
from hpcpod.errors import Diverged, UserError
from hpcpod.trading.account import Account, in_blocks, marked, observed, opened, traded, wanted
from hpcpod.trading.task import Task, task_of

ENGINE = f"hpcpod trading 1, torch {torch.__version__}"
PERCENT = 100.0


class Batch(NamedTuple):
    """N episodes: all there is to know about them."""

    at: Tensor
    """int64 [N]: the decision that is due."""
    left: Tensor
    """int64 [N]: decisions until the episode is cut."""
    cash: Tensor
    shares: Tensor
    value: Tensor
    seeds: Tensor
    """int64 [N], of the first episodes."""
    episodes: Tensor
    """int64 [N], which episode this is: 0, 1, ..."""

    @property
    def account(self) -> Account:
        """The money of each."""
        return Account(self.cash, self.shares, self.value)


class TradingVecEnv(TensorBackend):
    """Portfolios of one market or several; ``env.kwargs`` are the fields of ``task.Task``."""

    no_wrappers = "env.wrappers are put around gymnasium's environments; trading has its own rules"

    _kind = Batch
    _batch: Batch | None = None

    def _make(self, wanted: Wanted) -> EnvSpec:
        self._task: Task = task_of(wanted.env, wanted.kwargs)
        if self._task.part == "holdout":
            raise UserError(
                "the holdout is no environment: it is opened, and counted, by `hpcpod evaluate RUN"
                " --holdout`"
            )
        self._tables, self._starts, self._steps, _, digest = self._task.windows(wanted.device)
        self._on_cpu = torch.device(wanted.device).type == "cpu"
        stocks, seen = self._tables.mark.shape[1], self._tables.features.shape[1]
        return EnvSpec(
            id=str(wanted.env),
            observation=Box((seen + stocks + 1,), -math.inf, math.inf),
            action=Box((stocks,), -1.0, 1.0),
            num_envs=wanted.num_envs,
            device=wanted.device,
            max_episode_steps=self._steps,
            engine=f"{ENGINE}, bars {digest}" if digest else ENGINE,
            action_bounds=(-1.0, 1.0),
        )

    @property
    def task(self) -> Task:
        """The market and the rules."""
        return self._task

    @property
    def account(self) -> Account:
        """The accounts now."""
        assert self._batch is not None
        return self._batch.account

    def reset(self, seeds: Tensor | None = None) -> Tensor:
        """Begin an episode everywhere; see ``VecEnv.reset``."""
        n = self.spec.num_envs
        seeds = given_seeds(seeds, n).to(self.spec.device, torch.int64, copy=True)
        account = opened(n, self._tables.mark.shape[1], self._task.rules.capital, seeds.device)
        at = self._start(seeds)
        left = torch.full_like(at, self._steps)
        self._batch = Batch(at, left, *account, seeds, torch.zeros_like(seeds))
        return observed(account, self._tables, at)

    @torch.no_grad()
    def step(self, action: Tensor) -> Step:
        """Step every portfolio; see ``VecEnv.step``.

        Raises:
            Diverged: on the CPU, an action is not finite.
            ValueError: the actions have another shape.
        """
        self._check_step(self._batch, action)
        assert self._batch is not None
        if self._on_cpu and not math.isfinite(action.sum().item()):
            raise Diverged(f"{self.spec.id}: an action is not finite")
        tables, before = self._tables, self._batch
        at, left = before.at + 1, before.left - 1
        moved = [self._moved(before, action, rows) for rows in in_blocks(at)]
        account = Account(*map(torch.cat, zip(*moved, strict=True)))
        reward = (PERCENT * (account.value / before.value).log()).float()
        next_obs = observed(account, tables, at)
        truncated = left <= 0
        self._batch = Batch(at, left, *account, before.seeds, before.episodes)
        obs = self._begun(truncated, next_obs)
        never = torch.zeros_like(truncated)
        return Step(obs, reward, never, truncated, next_obs, torch.ones_like(truncated))

    def _moved(self, before: Batch, action: Tensor, rows: slice) -> Account:
        """The accounts of some portfolios at the next decision."""
        tables, rules, at = self._tables, self._task.rules, before.at[rows]
        held = Account(*(each[rows] for each in before.account))
        mark, off = tables.mark.index_select(0, at), tables.off.index_select(0, at)
        change = wanted(action[rows], held, mark, off, rules)
        fill = tables.fill.index_select(0, at)
        limits = tables.buyable.index_select(0, at), tables.sellable.index_select(0, at)
        account, _ = traded(held, change, fill, *limits, rules)
        return marked(account, tables.mark.index_select(0, at + 1))

    def _begun(self, over: Tensor, next_obs: Tensor) -> Tensor:
        """Begin anew where an episode is over; the observations to act on."""
        # Looking is free on the CPU alone: elsewhere the host would wait for the device.
        if self._on_cpu and not bool(over.any()):
            return next_obs.clone()
        batch = self._batch
        assert batch is not None
        episodes = batch.episodes + over
        at = torch.where(over, self._start(episode_seeds(batch.seeds, episodes)), batch.at)
        cash = torch.where(over, self._task.rules.capital, batch.cash)
        self._batch = Batch(
            at,
            torch.where(over, self._steps, batch.left),
            cash,
            torch.where(over.unsqueeze(1), 0.0, batch.shares),
            torch.where(over, cash, batch.value),
            batch.seeds,
            episodes,
        )
        return observed(self._batch.account, self._tables, at)

    @property
    def windows(self) -> int:
        """Windows that an episode may be."""
        return len(self._starts)

    def blocks(self, seeds: Tensor) -> tuple[int, ...]:
        """The window of each seed's first episode: those of equal windows are the same days."""
        return tuple(self._start(seeds.to(self.spec.device, torch.int64)).tolist())

    def _start(self, seeds: Tensor) -> Tensor:
        """The first decision of the episodes with these seeds, int64 [N]."""
        count = len(self._starts)
        place = (seeding.uniforms(seeds, 1)[0].double() * count).long().clamp_max(count - 1)
        return self._starts.index_select(0, place)
