"""The limits of a run, and the final evaluation with which it ends."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Literal

from hpcpod.config.limits import Count, Limit, Limited, Panel, Positive

Size = Annotated[int, Limit(least=2), Limit(most=64)]
EnsembleRule = Literal["auto", "mean", "vote", "product", "q_weighted"]


@dataclass(frozen=True)
class EnsemblesConfig(Limited):
    """Ensembles of finalists that a run's end tries beside its best single policy.

    One is delivered only where a paired test on common fresh seeds shows it better than the best
    single policy; ``rules: []`` tries none.
    """

    rules: tuple[EnsembleRule, ...] = ("auto",)
    """The ways in which members' actions become one: ``mean`` of continuous ones; of choices a
    ``vote`` or the ``product`` of their distributions; ``q_weighted``, by the members' critics, of
    one algorithm. ``auto`` is ``mean`` where actions are continuous, else ``vote``. One by default:
    each further candidate makes the test harder for all, and costs its episodes. A rule that does
    not fit the members is left out, and the run says so."""
    sizes: tuple[Size, ...] = (3,)
    """Members of an ensemble: so many of the finalists, best first; all where there are fewer. A
    vote of two is the better one's own, so where actions are choices take three or more."""


@dataclass(frozen=True)
class StopConfig(Limited):
    """Limits of the run: the first one ends it. Each end exports the best policy."""

    target: float | None = None
    """Mean return to reach; its lower confidence bound on fresh seeds must reach it, and is tried
    as soon as a panel promises that. The bound holds for skewed returns, also if rare episodes
    fail, as long as none is worse than the worst that the run has seen (nor than 0, or for a
    negative target than twice the target, nor than as far below the target as the best is above
    it). So it asks for a margin: at the first attempt 128 episodes of equal returns show a target
    that they exceed by 3.1 % of its distance from the worst one; later ones ask for more. The best
    possible return can't be shown."""
    env_steps: Count | None = None
    """Environment steps of the whole population."""
    minutes: Positive | None = None
    """Minutes of wall time since the first slot began to work: the queue before it costs none. A
    pause (``stop --drain``) and later queues do."""
    rounds: Count | None = None
    """Rounds that each pod trains."""
    alpha: Annotated[float, Limit(above=0, below=1)] = 0.05
    """Error level of the target's test, over all attempts: the k-th checkpoint that is tried spends
    alpha / (k (k + 1))."""
    confirm_episodes: Panel = 128
    """Episodes in a set of fresh seeds: to confirm the target, where sets are pooled until they
    decide, or until more than 1,024 episodes seem to be needed; and in a final evaluation for each
    candidate on the confirm set, and for the delivered policy on the report set. They are played in
    gymnasium's own environment, whatever backend trains, where it has ``env.id`` and takes
    ``env.kwargs``."""
    finalists: Count = 3
    """Leaders that are scored again on fresh seeds when a run ends without its target; it waits
    for their scores. See docs/stopping.md for the three sets of seeds that follow."""
    final_episodes: Panel | None = None
    """Most episodes, over all finalists, that choose the best of them (the select set). They come
    in batches of a quarter of ``confirm_episodes``: one for each finalist in any case, the others
    where spread and distance from the best ask for them (OCBA), and none any more once the best is
    clear. Null: ``finalists`` times ``confirm_episodes``."""
    final_minutes: Positive | None = None
    """Minutes after a limit from which the final evaluation begins nothing but its report: no
    further batch, no ensembles. What slots have in hand then is waited for. Null: no limit."""
    ensembles: EnsemblesConfig = field(default_factory=EnsemblesConfig)
    """Ensembles of finalists, tried on the confirm set beside the best single policy."""

    @property
    def batch(self) -> int:
        """Episodes of one batch of the select set."""
        return max(2, -(-self.confirm_episodes // 4))

    @property
    def select_episodes(self) -> int:
        """Most episodes of the select set, over all finalists."""
        return self.final_episodes or self.finalists * self.confirm_episodes
