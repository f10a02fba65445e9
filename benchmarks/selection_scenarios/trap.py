"""Skill that grows with the step size, where a large step costs nothing now, or a lot.

The synthetic population of ``shared/research/evolution.md``, section 3: 16 agents, 60 rounds,
returns around 0 to 100 with a standard deviation of 25. In the trap today's leaders are those
that will be overtaken.
"""

from __future__ import annotations

from collections.abc import Iterator

from hpcpod.config.schema import StopConfig
from hpcpod.records import Birth, Board
from selection_scenarios.measures import Number, Row, mean
from selection_scenarios.world import Agents, Game, Settings, copied, delivered, in_step

PODS, ROUNDS, SPREAD = 16, 60, 25.0
COSTS = {"benign": 0.0, "trap": 20.0}
EPISODES = (8, 32)


class Steps(Agents):
    """Skill goes to 100 as fast as the step is large; a score is skill less the step's cost."""

    cost = 0.0

    def trained(self, birth: Birth, skill: float) -> tuple[float, float]:
        step = birth.hyperparameters["step"]
        assert isinstance(step, float)
        skill += 0.06 * step * (100 - skill)
        return skill, skill - self.cost * step


def rows(settings: Settings) -> Iterator[Row]:
    for name, cost in COSTS.items():
        for episodes in EPISODES:
            for never in (True, False):
                case = f"{name}, {episodes} episodes, {'no copies' if never else 'copies'}"
                yield Row("greed", case, outcome(cost, episodes, never, settings))


def outcome(cost: float, episodes: int, never: bool, settings: Settings) -> dict[str, Number]:
    """What the runs deliver, and by how many copies."""
    scores, copies, right = [], [], []
    for replicate in range(settings.replicates):
        game = Game(
            PODS,
            stop=StopConfig(rounds=ROUNDS),
            controls=1,
            episodes=episodes,
            never_copy=never,
        )
        rules = game.rules(settings, replicate)
        agents = Steps(rules, replicate, SPREAD)
        agents.cost = cost
        better: list[bool] = []

        def watch(
            before: Board, after: Board, better: list[bool] = better, agents: Steps = agents
        ) -> None:
            better += [is_better(before, after, agents, *pair) for pair in copied(before, after)]

        board = in_step(rules, agents, watch)
        scores.append(agents.truth[delivered(board).checkpoint.core])
        copies.append(float(len(better)))
        right.append(sum(better) / len(better) if better else float("nan"))
    return {
        "true score delivered": mean(scores),
        "copies": mean(copies),
        "copies of a truly better policy": mean(right),
    }


def is_better(before: Board, after: Board, agents: Agents, pod: str, child: str) -> bool:
    """Whether a child began with a policy better than the one that the replaced pod had last."""
    birth = after.pods[child].birth
    assert birth is not None and birth.checkpoint is not None
    old = before.pods[pod].birth
    assert old is not None
    last = f"core of {old.id}"
    return agents.truth[birth.checkpoint.core] > agents.truth[last]
