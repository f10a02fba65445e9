"""The final evaluation of a run: three sets of seeds, of which nothing before has had any.

::

    select ──the best is clear, or its budget spent──> confirm ──scored──> report ──> finished
       └──one finalist, or no ensembles─────────────────────────────────────^

- *select*: finalists play batches, where they are asked for (``selection``). The best one's score
  is the highest of several, so it flatters.
- *confirm*: the best single policy and each ensemble of the best play the same fresh seeds. An
  ensemble is delivered only where the paired test shows it better than the single policy.
- *report*: what is delivered plays seeds that decided nothing. This set is read once, and the mean
  on it is unbiased: it is the score to quote.

Each stage is opened by the merge that has the last report of the one before, and all of them are
orders like births.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from hpcpod.config.schema import RunConfig
from hpcpod.records.evaluations import SCORE_ERROR
from hpcpod.records.records import (
    Board,
    Candidate,
    Confirmed,
    Entry,
    Finals,
    FreshPurpose,
    Member,
    Report,
    Rescore,
    Trial,
)
from hpcpod.tournament.seed_sets import unused_set
from hpcpod.tournament.selection import best_first, next_batches
from hpcpod.tournament.statistics import GATE, chosen_interval, difference, interval, mean, played

Returns = tuple[float, ...]


def opened(board: Board, config: RunConfig) -> Board:
    """The board with its finalists, and their first orders; without a leaderboard it stays."""
    finalists = tuple(
        Member(
            entry.pod, entry.round, entry.algorithm, board.pods[entry.pod].hyperparameters,
            entry.checkpoint,
        )
        for entry in board.entries[: config.stop.finalists]
    )  # fmt: skip
    finals = replace(renewed(board.finals), stage="select", finalists=finalists)
    board = replace(board, finals=finals)
    if len(finalists) < 2:
        alone = tuple(Candidate((member,)) for member in finalists)
        return _to_report(board, config, alone)
    return _with_batches(board, config, [member.pod for member in finalists])


def renewed(finals: Finals) -> Finals:
    """The state of a run that goes on: its next final evaluation uses no order and no seed of the
    last one again."""
    return Finals(sets=finals.sets, first=finals.first + len(finals.candidates))


def received(board: Board, order: Rescore, report: Report, returns: Returns, why: str) -> Finals:
    """The board's finals with the result of an order that won't be tried again.

    Args:
        board: has the finals.
        order: final or candidate.
        report: answers it.
        returns: empty if there is no score.
        why: the reason then.
    """
    finals = board.finals
    if order.purpose == "final" and returns:
        whole = (*finals.returns.get(order.pod, ()), *returns)
        return replace(
            finals, returns={**finals.returns, order.pod: whole}, engine=report.engine,
            told={**finals.told, **_told(order.pod, returns, report)},
            played={**finals.played, order.pod: finals.played.get(order.pod, 0) + 1},
        )  # fmt: skip
    if order.purpose == "final":
        return replace(finals, given_up={**finals.given_up, order.pod: why})
    if order.purpose != "candidate":
        return finals
    candidates = list(finals.candidates)
    place, rule = order.number - finals.first, report.rule or order.rule
    candidates[place] = replace(candidates[place], rule=rule, returns=returns, failure=why)
    return replace(finals, candidates=tuple(candidates))


def next_stage(board: Board, config: RunConfig, now: float) -> Board:
    """The board after a stage whose orders are all settled; without new orders it is over."""
    late = config.stop.final_minutes
    over = late is not None and board.stopped is not None and now - board.stopped >= 60 * late
    stage = board.finals.stage
    if stage == "select":
        return _after_select(board, config, over=over)
    if stage == "confirm":
        finals = _decided(board.finals)
        return _to_report(replace(board, finals=finals), config, finals.candidates)
    if stage == "":  # an older version has scored the finalists, on one set
        rows = [s for s in board.confirmed if s.purpose == "final" and s.episodes > 0]
        best = min(rows, key=lambda row: (-row.mean, row.pod), default=None)
        return _to_report(board, config, () if best is None else (_alone(board, best),))
    return board


def _alone(board: Board, row: Confirmed) -> Candidate:
    pod = board.pods[row.pod]
    member = Member(pod.id, row.round, pod.algorithm, pod.hyperparameters, row.checkpoint)
    return Candidate((member,))


def closed(board: Board) -> Board:
    """The board with a row for each finalist that was scored, if the select set is still open."""
    finals = board.finals
    if finals.stage != "select":
        return board
    settled = {**finals.returns, **finals.given_up}
    rows = [_select_row(board, each) for each in finals.finalists if each.pod in settled]
    return replace(board, confirmed=(*board.confirmed, *rows))


def fresh_row(
    board: Board, order: Rescore, report: Report, returns: Returns, worst: float | None
) -> Confirmed:
    """The row of a candidate, or of what is delivered; without returns, the record of that."""
    rivals = len(board.finals.candidates) if order.purpose == "candidate" else 1
    episodes = played(returns, report)
    centre, low, high = _interval(returns, episodes, rivals, worst)
    assert order.purpose != "snapshot"
    assert order.purpose != "look"
    made = report.checkpoint if order.members and order.purpose == "candidate" else None
    return Confirmed(
        order.pod, order.round, order.purpose, order.number, centre, low, high, episodes,
        passed=False, checkpoint=made or order.checkpoint, engine=report.engine,
        rule=report.rule or order.rule, members=tuple(member.pod for member in order.members),
    )  # fmt: skip


def named(rule: str, members: Iterable[str]) -> str:
    """An ensemble in words; of a single policy its pod."""
    pods = ", ".join(members)
    return f"the ensemble ({rule}) of {pods}" if rule else pods


def ensemble_words(score: Confirmed | Entry | None) -> str:
    """The ensemble of a score in words; empty if it is of a single policy."""
    if not isinstance(score, Confirmed) or not score.rule:
        return ""
    return named(score.rule, score.members)


def _after_select(board: Board, config: RunConfig, *, over: bool) -> Board:
    """More batches; else the confirm set, or at once the report."""
    stop, finals = config.stop, board.finals
    returns = {pod: r for pod, r in finals.returns.items() if pod not in finals.given_up}
    left = stop.select_episodes // stop.batch - sum(finals.played.values())
    # Fewer than were asked for: these are all that there are.
    short = any(len(r) < stop.batch * finals.played.get(pod, 0) for pod, r in returns.items())
    further = not over and not short and not _gives_scores(board)
    pods = next_batches(returns, stop.batch, left) if further else []
    if pods:
        return _with_batches(board, config, pods)
    board = closed(board)
    by_pod = {member.pod: member for member in finals.finalists}
    ranking = [by_pod[pod] for pod in best_first(returns)]
    candidates = tuple(Candidate((member,)) for member in ranking[:1])
    if not over:
        candidates += tuple(_ensembles(ranking, config))
    if len(candidates) < 2:
        return _to_report(board, config, candidates)
    finals = replace(board.finals, stage="confirm", candidates=candidates)
    board, number = _opened_set(replace(board, finals=finals), config, "candidate")
    orders = [
        replace(_order("candidate", number, each), number=finals.first + place)
        for place, each in enumerate(candidates)
    ]
    return replace(board, rescores={f"{o.pod}-candidate{o.number}": o for o in orders})


def _gives_scores(board: Board) -> bool:
    """True if a finalist's program gives scores with their errors: it plays one batch, for nothing
    says that the scores of two are of different episodes."""
    pods = [board.pods[member.pod] for member in board.finals.finalists]
    seen = [each for pod in pods for each in (*pod.history, pod.best) if each is not None]
    return any(SCORE_ERROR in each.metrics for each in seen)


def _ensembles(ranking: list[Member], config: RunConfig) -> Iterator[Candidate]:
    tried = config.stop.ensembles
    sizes = {min(size, len(ranking)) for size in tried.sizes} - {0, 1}
    for size in sorted(sizes):
        for rule in dict.fromkeys(tried.rules):
            yield Candidate(tuple(ranking[:size]), rule)


def _decided(finals: Finals) -> Finals:
    """The finals with the tests of the ensembles, and what is delivered."""
    single, *ensembles = finals.candidates
    level = GATE / len(ensembles)
    trials = []
    for place, each in enumerate(ensembles, start=1):
        found = difference(each.returns, single.returns, paired=True, level=level)
        if found is not None:
            trials.append(Trial(place, found.mean, found.low, level, found.episodes))
    best = max(trials, key=lambda trial: trial.mean, default=None)
    shown = max((t for t in trials if t.low > 0), key=lambda trial: trial.mean, default=None)
    alone = named("", [single.members[0].pod])
    if shown is not None:
        verdict = f"{_words(finals, shown)} is shown to be better than {alone}: {_numbers(shown)}"
    elif best is not None:
        verdict = (
            f"no ensemble is shown to be better than {alone}: the best,"
            f" {_words(finals, best)}, has {_numbers(best)}"
        )
    else:
        why = next((each.failure for each in finals.candidates if each.failure), "")
        verdict = f"no ensemble could be compared with {alone}: {why}"
    delivered = 0 if shown is None else shown.candidate
    return replace(finals, trials=tuple(trials), delivered=delivered, verdict=verdict)


def _words(finals: Finals, trial: Trial) -> str:
    candidate = finals.candidates[trial.candidate]
    return named(candidate.rule, [member.pod for member in candidate.members])


def _numbers(trial: Trial) -> str:
    return (
        f"{trial.mean:+.4g}, at least {trial.low:+.4g} with {1 - trial.level:.4g} certainty, on"
        f" {trial.episodes} common episodes"
    )


def _to_report(board: Board, config: RunConfig, candidates: tuple[Candidate, ...]) -> Board:
    """The board with the order to score what is delivered; without one if that is nothing, or
    could not be scored on the confirm set."""
    delivered = board.finals.delivered or 0
    finals = replace(
        board.finals, stage="report", candidates=candidates,
        delivered=delivered if candidates else None,
    )  # fmt: skip
    board = replace(board, finals=finals, rescores={})
    if not candidates or candidates[delivered].failure:
        return board
    board, number = _opened_set(board, config, "report")
    order = _order("report", number, candidates[delivered])
    made = delivered_row(board)
    if order.rule and made is not None:
        order = replace(order, checkpoint=made.checkpoint)
    return replace(board, rescores={order.pod: order})


def delivered_row(board: Board) -> Confirmed | None:
    """The score on the confirm set of what is delivered; None if there was no such set."""
    place, first = board.finals.delivered, board.finals.first
    rows = (s for s in board.confirmed if s.purpose == "candidate" and s.episodes > 0)
    return next((row for row in rows if place is not None and row.number == first + place), None)


def _with_batches(board: Board, config: RunConfig, pods: Iterable[str]) -> Board:
    """The board with one more batch ordered for each of these finalists."""
    by_pod = {member.pod: member for member in board.finals.finalists}
    orders = {}
    for pod in pods:
        place = board.finals.played.get(pod, 0)
        if place == len(board.finals.batches):
            board, number = _opened_set(board, config, "final")
            batches = (*board.finals.batches, number)
            board = replace(board, finals=replace(board.finals, batches=batches))
        order = _order("final", board.finals.batches[place], Candidate((by_pod[pod],)))
        orders[pod] = replace(order, episodes=config.stop.batch)
    return replace(board, rescores=orders)


def _opened_set(board: Board, config: RunConfig, purpose: FreshPurpose) -> tuple[Board, int]:
    """The board that knows one more set of seeds, and the number of that."""
    stop = config.stop
    episodes = stop.batch if purpose == "final" else stop.confirm_episodes
    number = unused_set(board, config, purpose, episodes)
    sets = {**board.finals.sets, purpose: number + 1}
    return replace(board, finals=replace(board.finals, sets=sets)), number


def _order(purpose: FreshPurpose, number: int, candidate: Candidate) -> Rescore:
    """The order to play a set of seeds."""
    first = candidate.members[0]
    return Rescore(
        purpose, number, first.pod, 1, first.algorithm, first.hyperparameters, first.checkpoint,
        first.round, set=number, rule=candidate.rule,
        members=candidate.members if candidate.rule else (),
    )  # fmt: skip


def _select_row(board: Board, member: Member) -> Confirmed:
    finals = board.finals
    returns = () if member.pod in finals.given_up else finals.returns[member.pod]
    episodes = finals.told.get(member.pod, len(returns)) if returns else 0
    centre, low, high = _interval(returns, episodes, len(finals.finalists), board.worst)
    return Confirmed(
        member.pod, member.round, "final", 0, centre, low, high, episodes, passed=False,
        checkpoint=member.checkpoint, engine=finals.engine,
    )  # fmt: skip


def _told(pod: str, returns: Returns, report: Report) -> dict[str, int]:
    """The episodes of a program's score by its pod, if they are others than the returns are."""
    episodes = played(returns, report)
    return {} if episodes == len(returns) else {pod: episodes}


def _interval(
    returns: Returns, episodes: int, rivals: int, worst: float | None
) -> tuple[float, float, float]:
    """Mean and 95 % interval of a score that is the best of several."""
    if not returns:
        return 0.0, 0.0, 0.0
    centre = mean(returns)
    plain = interval(returns, episodes=episodes)[0]
    return centre, *chosen_interval(centre, plain, episodes, rivals, worst)
