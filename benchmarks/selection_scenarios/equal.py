"""All pods equal: whoever is replaced is replaced for nothing. And one that is truly worse."""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil, nan

from hpcpod.config.schema import StopConfig
from hpcpod.records import Birth, Board
from selection_scenarios.measures import Number, Row, mean, share
from selection_scenarios.world import Agents, Game, Settings, copied, in_step

SIZES = (3, 4, 6, 8, 12, 16, 32, 64)
ROUNDS = 12
FIRST = 2
"""The first round after the warm-up."""
WORSE = (0.5, 1.0)
"""Standard deviations of a return by which one pod is worse."""
POWER_SIZES = (4, 8, 16)


class OneWorse(Agents):
    """Pods of mean 0, but for the first one and what it trains."""

    worse = 0.0

    def trained(self, birth: Birth, skill: float) -> tuple[float, float]:
        return 0.0, -self.worse if birth.pod == "p0001" else 0.0


def rows(settings: Settings) -> Iterator[Row]:
    for pods in SIZES:
        yield Row("all pods equal", f"{pods} pods", false_copies(pods, settings))
    for worse in WORSE:
        for pods in POWER_SIZES:
            yield Row("one pod is worse", f"by {worse} sd, of {pods}", power(pods, worse, settings))


def false_copies(pods: int, settings: Settings) -> dict[str, Number]:
    """Copies in a population without a difference, in every round that a copy can be made of."""
    rounds, places, copies = [], [], []
    comparable = ROUNDS - FIRST
    for replicate in range(settings.replicates):
        rules = Game(pods, stop=StopConfig(rounds=ROUNDS)).rules(settings, replicate)
        replaced: dict[int, int] = {}

        def watch(before: Board, after: Board, replaced: dict[int, int] = replaced) -> None:
            for _, child in copied(before, after):
                at = after.pods[child].parent_round
                replaced[at] = replaced.get(at, 0) + 1

        in_step(rules, Agents(rules, replicate), watch)
        rounds.append(len(replaced) / comparable)
        places.append(sum(replaced.values()) / comparable / ceil(pods / 8))
        copies.append(float(sum(replaced.values())))
    return {
        "rounds with a false copy": mean(rounds),
        "false copies per tested pod": mean(places),
        f"false copies in {comparable} rounds": mean(copies),
    }


def power(pods: int, worse: float, settings: Settings) -> dict[str, Number]:
    """When the one pod that is worse is replaced."""
    waited, others = [], []
    for replicate in range(settings.replicates):
        rules = Game(pods, stop=StopConfig(rounds=FIRST + 4)).rules(settings, replicate)
        agents = OneWorse(rules, replicate)
        agents.worse = worse
        seen: list[tuple[str, int]] = []

        def watch(
            before: Board, after: Board, seen: list[tuple[str, int]] = seen
        ) -> None:
            for pod, child in copied(before, after):
                seen.append((pod, after.pods[child].parent_round))

        in_step(rules, agents, watch)
        waited.append(next((at - FIRST + 1 for pod, at in seen if pod == "p0001"), nan))
        others.append(float(sum(pod != "p0001" for pod, _ in seen)))
    return {
        "replaced in its first comparable round": share(rounds <= 1 for rounds in waited),
        "within four": share(rounds <= 4 for rounds in waited),
        "others replaced meanwhile": mean(others),
    }
