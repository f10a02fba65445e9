"""The stream of any task: due by time or by files, policies are judged on fresh seeds."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from hpcpod import plugins
from hpcpod.config.schema import CtConfig, EnvConfig, RunConfig
from hpcpod.deploy.score_folder import ScoreFolder
from hpcpod.errors import UserError
from hpcpod.run.evaluation.conditions import Condition
from hpcpod.run.evaluation.evaluate import FIRST_SEED, LARGEST_SEED, evaluated
from hpcpod.run.evaluation.policies import candidates
from hpcpod.run.evaluation.pool import LocalPool
from hpcpod.storage import spaces
from hpcpod.storage.os_errors import explain
from hpcpod.tournament.continuous.drift import Sample
from hpcpod.tournament.continuous.stream import (
    Look,
    NotComparable,
    Part,
    Player,
    Score,
    Verdict,
    Windows,
)
from hpcpod.tournament.statistics import difference, interval, mean

EPISODES = 64
_SAMPLED = (32, 64)
"""Episodes and steps of each that the report on drift looks at."""


class FreshSeeds:
    """Judges policies by paired episodes on seeds that no run has drawn, nor another cycle
    that gave a verdict.

    There is no date: what a generation trains on is what the environment gives, and the files of
    ``ct.data`` are taken to be what it reads.
    """

    def __init__(self, config: RunConfig) -> None:
        """Keep the configuration.

        Raises:
            UserError: ``ct.kwargs`` has something else than ``episodes``, or too few of them.
        """
        self._ct: CtConfig = config.ct or CtConfig()
        given = dict(self._ct.kwargs)
        episodes = given.pop("episodes", EPISODES)
        if given:
            raise UserError(f"ct.kwargs: fresh_seeds has no '{min(given)}' (episodes)")
        if not isinstance(episodes, int) or isinstance(episodes, bool) or episodes < 2:
            raise UserError(f"ct.kwargs: episodes is a whole number from 2, got {episodes!r}")
        self._episodes = episodes

    def look(self, before: Windows | None, cycle: int) -> Look:
        """See ``Stream``."""
        windows = self._windows(before)
        files = ", ".join(self._ct.data)
        if before is None:
            return Look(windows, True, "nothing is deployed yet")
        if files and windows.digest == before.digest:
            return Look(windows, False, f"{files} have not changed since the last cycle")
        if files:
            return Look(windows, True, f"{files} have changed since the last cycle")
        due = self._ct.every is not None
        why = "its time has come" if due else "ct.every and ct.data are empty: say --now"
        return Look(windows, due, why)

    def adopted(self) -> Windows:
        """See ``Stream``."""
        return self._windows(None)

    def digest(self, windows: Windows) -> str:
        """See ``Stream``."""
        return self._digest()

    def judge(
        self, windows: Windows, challenger: Player, incumbent: Player | None, folder: Path
    ) -> Verdict:
        """See ``Stream``: both play in the environment of the newer one's configuration."""
        players = [each for each in (challenger, incumbent) if each is not None]
        own = Condition("judged", kwargs=windows.judge)
        if incumbent is not None:
            require_same_spaces(incumbent.policy, _spec(challenger.policy), challenger.env)
        asked = [
            # Of two environments the scores were compared once, and called paired.
            (own, replace(found, env=challenger.env))
            for player in players
            for found in candidates([player.policy])
        ]
        scores = ScoreFolder(folder / "scores")
        scores.create()
        seeds = range(windows.seed, self._past(windows))
        found = evaluated(scores, asked, seeds, LocalPool(scores), None, lambda text: None)
        rows = {row.source: row for row in found.rows}
        ours = rows[str(challenger.policy)]
        level, words = self._ct.level, f"{len(seeds)} episodes on fresh seeds"
        if incumbent is None:
            return Verdict(_score(ours.returns), None, None, None, level, "return", words)
        theirs = rows[str(incumbent.policy)]
        paired = ours.paired and theirs.paired
        gap = difference(ours.returns, theirs.returns, paired=paired, level=level)
        words += ", the same for both" if paired else ", which decide no episode: unpaired"
        ahead, low = (None, None) if gap is None else (gap.mean, gap.low)
        return Verdict(
            _score(ours.returns), _score(theirs.returns), ahead, low, level, "return", words
        )

    def sample(self, windows: Windows, player: Player, part: Part) -> Sample:
        """See ``Stream``: the policy plays the environment as it is configured."""
        with plugins.needing_torch():
            from hpcpod.deploy.sampling import sampled
        laid = windows.train if part == "train" else windows.judge
        env = replace(player.env, kwargs={**player.env.kwargs, **laid}, processes=1)
        return sampled(player.policy, env, windows.seed, *_SAMPLED)

    def _windows(self, before: Windows | None) -> Windows:
        seed = FIRST_SEED if before is None else self._past(before)
        if seed + self._episodes > LARGEST_SEED:  # after 2 ** 31 of them, all have been drawn
            seed = FIRST_SEED
        source = {"files": list(self._ct.data)} if self._ct.data else {}
        return Windows(
            seed=seed, past=seed + self._episodes, digest=self._digest(), source=source,
            words=f"judged by {self._episodes} episodes from seed {seed} on",
        )  # fmt: skip

    def _past(self, windows: Windows) -> int:
        """The first seed behind those of a cycle."""
        return windows.past or windows.seed + self._episodes

    def _digest(self) -> str:
        hashed = hashlib.sha256()
        for name in self._ct.data:
            try:
                hashed.update(hashlib.sha256(Path(name).read_bytes()).digest())
            except OSError as error:
                raise UserError(f"ct.data: {name} can't be read: {explain(error)}") from error
        return hashed.hexdigest() if self._ct.data else ""


def require_same_spaces(deployed: Path, spec: Mapping[str, Any], env: EnvConfig) -> None:
    """See that a deployed policy can be played in another configuration's environment.

    Args:
        deployed: the policy's file.
        spec: of the environment, as plain data.
        env: the environment.

    Raises:
        NotComparable: it can't.
    """
    differs = spaces.difference(_spec(deployed), spec)
    if differs:
        raise NotComparable(
            f"the deployed policy can't be judged in {env.id} as it is configured now: {differs};"
            " give the configuration another name, so that it has a registry of its own"
        )


def _spec(policy: Path) -> Mapping[str, Any]:
    from hpcpod.storage.blobs import decode_blob

    spec: Mapping[str, Any] = decode_blob(policy.read_bytes(), str(policy))[1]["spec"]
    return spec


def _score(returns: tuple[float, ...]) -> Score:
    return Score(mean(returns), *interval(returns), len(returns))
