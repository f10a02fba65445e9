"""All pods equal: whoever is replaced is replaced for nothing. And one that is truly worse."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from math import ceil

from hpcpod.config.schema import StopConfig
from hpcpod.records.records import Birth
from hpcpod.tournament.rules import Rules
from selection_scenarios.measures import Number, Row, mean, share
from selection_scenarios.world import Agents, Game, Settings, copies, in_step

SIZES = (3, 4, 6, 8, 12, 16, 32, 64)
ROUNDS = 12
FIRST = 2
"""The first round after the warm-up."""
WORSE = (0.5, 1.0)
"""Standard deviations of a return by which one pod is worse."""
POWER_SIZES = (4, 8, 16)


class OneWorse(Agents):
    """Pods of mean 0, but for the first one and what it trains."""

    def __init__(self, rules: Rules, replicate: int, worse: float) -> None:
        super().__init__(rules, replicate)
        self._worse = worse

    def trained(self, birth: Birth, skill: float) -> tuple[float, float]:
        return 0.0, -self._worse if birth.pod == "p0001" else 0.0


def rows(settings: Settings) -> Iterator[Row]:
    for pods in SIZES:
        yield Row("all pods equal", f"{pods} pods", false_copies(pods, settings))
    for worse in WORSE:
        for pods in POWER_SIZES:
            yield Row("one pod is worse", f"by {worse} sd, of {pods}", power(pods, worse, settings))


def false_copies(pods: int, settings: Settings) -> dict[str, Number]:
    """Copies in a population without a difference, in every round that a copy can be made of."""
    rounds, places, total = [], [], []
    comparable = ROUNDS - FIRST
    for replicate in range(settings.replicates):
        rules = Game(pods, stop=StopConfig(rounds=ROUNDS)).rules(settings, replicate)
        board = in_step(rules, Agents(rules, replicate))[-1]
        of_round = Counter(child.parent_round for _, child in copies(board))
        rounds.append(len(of_round) / comparable)
        places.append(of_round.total() / comparable / ceil(pods / 8))
        total.append(float(of_round.total()))
    return {
        "rounds with a false copy": mean(rounds),
        "false copies per tested pod": mean(places),
        f"false copies in {comparable} rounds": mean(total),
    }


def power(pods: int, worse: float, settings: Settings) -> dict[str, Number]:
    """The round in which the one pod that is worse is replaced, and the others' false copies."""
    waited, others = [], []
    for replicate in range(settings.replicates):
        rules = Game(pods, stop=StopConfig(rounds=FIRST + 4)).rules(settings, replicate)
        board = in_step(rules, OneWorse(rules, replicate, worse))[-1]
        replaced = {old.id: child.parent_round for old, child in copies(board)}
        waited.append(replaced.pop("p0001", ROUNDS) - FIRST + 1)
        others.append(float(len(replaced)))
    return {
        "replaced in its first comparable round": share(rounds <= 1 for rounds in waited),
        "within four": share(rounds <= 4 for rounds in waited),
        "others replaced meanwhile": mean(others),
    }
