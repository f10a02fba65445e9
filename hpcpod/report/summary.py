"""The summary in words: what was run, what won, by how much, on which seeds, at what cost."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Iterator

from hpcpod.records.records import PodState
from hpcpod.report.axes import number
from hpcpod.report.holdout import has_holdout
from hpcpod.report.markup import Markup, joined, short, tag
from hpcpod.report.scores import fresh
from hpcpod.report.story import Story
from hpcpod.report.tree import moved
from hpcpod.run.history import Result
from hpcpod.run.status import Best
from hpcpod.run.tables import count
from hpcpod.run.text import duration, listed, many
from hpcpod.tournament.statistics import GATE, difference, mean
from hpcpod.trading.verdict import UNIT

ENDS = {
    "target": "its target was confirmed on fresh seeds",
    "env_steps": "its environment steps were spent (stop.env_steps)",
    "minutes": "its time was up (stop.minutes)",
    "rounds": "every pod had trained its rounds (stop.rounds)",
    "user": "a person stopped it",
    "failed": "it was given up",
}
MOST_NAMES = 6


def summary(story: Story) -> Markup:
    """Questions and answers, each answer in sentences."""
    ended = story.board.winner is not None
    answers = [
        ("What was run", what_was_run(story)),
        ("What won" if ended else "What leads", what_won(story)),
        ("By how much", by_how_much(story)),
        ("On which seeds", on_which_seeds(story)),
        ("Why it won" if ended else "Why it leads", why_it_won(story)),
        ("At what cost", at_what_cost(story)),
        ("What to doubt", list(doubts(story))),
    ]
    return tag("dl", *(
        joined([tag("dt", question), tag("dd", *(tag("p", sentence) for sentence in said))])
        for question, said in answers if said
    ), class_="summary")  # fmt: skip


def what_was_run(story: Story) -> list[str]:
    """The task, the population and the state of the run."""
    config, status = story.config, story.status
    names = listed([short(name) for name in list(story.algorithms)[:MOST_NAMES]])
    places = config.population.pods.max
    kind = "a generational tournament" if config.population.scheme == "generational" else (
        "a tournament")  # fmt: skip
    said = (
        f"{kind.capitalize()} of up to {many(places, 'pod')} at once ({names}) on"
        f" {short(config.env.id)}. A round trains {config.round.env_steps:,} environment steps and"
        f" scores {many(config.round.episodes, 'episode')}."
    )
    if config.stop.target is not None:
        said += f" The target was a mean return of {number(config.stop.target)}."
    board = story.board
    if board.phase == "finished":
        reason = ENDS.get(board.stop_reason or "", board.stop_reason or "it was ended")
        end = f"It has finished: {reason}."
    else:
        end = (
            f"It is {status.state} as of {_clock(story.at)}: what follows is not its end, and may"
            " still change."
        )
    if status.failure:
        end += f" {status.failure[:1].upper()}{status.failure[1:]}"
    again = [f"It was {short(each, 240)}." for each in status.extended]
    return [said, *again, end]


def what_won(story: Story) -> list[str]:
    """The winner and its score."""
    best = story.best
    if best is None:
        return ["Nothing yet: no round was reported."]
    word = "won" if story.board.winner == best.pod else "leads"
    score = number(best.mean)
    if best.episodes > 1:
        score += f" [{number(best.low)}, {number(best.high)}]"
    told = f" over {many(best.episodes, 'episode')}" if best.episodes > 1 else ""
    over = f"mean return {score}{told}"
    who = (
        f"{short(best.pod)} ({short(best.algorithm)}) {word}, with its policy of round {best.round}"
    )
    unit = [UNIT] if has_holdout(story) else []
    if not best.ensemble:
        return [f"{who}: {over}.", *unit]
    return [f"{who}. What is delivered is {short(best.ensemble, 240)}: {over}.", *unit]


def by_how_much(story: Story) -> list[str]:
    """The distance to the target, to the next finalist and to the controls."""
    best = story.best
    if best is None:
        return []
    said = []
    target = story.config.stop.target
    if target is not None:
        gap = best.mean - target
        where = "above" if gap >= 0 else "below"
        shown = "is above it, too" if best.low >= target else "is not"
        reaches = f" The lower end of its interval, {number(best.low)}, {shown}." * (gap >= 0)
        said.append(f"{number(abs(gap))} {where} the target of {number(target)}.{reaches}")
    said += [*_over_finalists(story), *_over_ensembles(story), *_over_controls(story)]
    return said


def _over_finalists(story: Story) -> Iterator[str]:
    """The winner against the next finalist, on the seeds that both have played."""
    finals = [(score, returns) for score, returns in fresh(story) if score.purpose == "final"]
    finals.sort(key=lambda each: -each[0].mean)
    if len(finals) < 2 or story.best is None or finals[0][0].pod != story.best.pod:
        return
    (_, ours), (second, theirs) = finals[:2]
    common = min(len(ours), len(theirs))  # one that was far behind has played fewer batches
    ours, theirs = ours[:common], theirs[:common]
    if not common:
        return
    gap = mean(ours) - mean(theirs)
    text = (
        f"On the select set {number(gap)} above the next finalist, {short(second.pod)}"
        f" ({number(mean(theirs))}), on the same {many(common, 'episode')}"
    )
    # first and second were chosen by these very episodes: any pair might have become this one
    level = GATE / (len(finals) * (len(finals) - 1))
    test = difference(ours, theirs, paired=True, level=level)
    if test is None:
        yield f"{text}."
    elif test.low > 0:
        yield (
            f"{text}; the true difference is at least {number(test.low)}, with 95 % and the choice"
            f" among {len(finals)} allowed for."
        )
    else:
        yield f"{text}: too little to tell them apart by these episodes."


def _over_ensembles(story: Story) -> Iterator[str]:
    """The decision between the best single policy and the ensembles."""
    finals = story.board.finals
    if not finals.verdict:
        return
    said = short(_rounded(finals.verdict), 400)
    yield f"On the confirm set {said}."
    left = [each for each in finals.candidates if each.failure]
    if left and finals.trials:
        yield f"Left out: {short(left[0].rule)} ({short(left[0].failure, 200)})."


def _over_controls(story: Story) -> Iterator[str]:
    """The winner against the best control, which has the agent's defaults."""
    if story.best is None:
        return
    controls = {pod.id for pod in story.board.pods.values() if pod.control}
    tops = [row for pod in controls for row in story.rounds.get(pod, ())]
    if not tops or story.best.pod in controls:
        if story.best.pod in controls:
            early = story.board.winner is not None and story.board.stop_reason == "target"
            yield (
                "The winner is a control: the search found nothing that was shown to be better."
                + " It was the first to be confirmed; others were not tried." * early
            )
        return
    top = max(tops, key=lambda row: row.mean or 0.0)
    yield (
        f"The best control (default hyperparameters), {short(top.pod)} ({short(top.algorithm)}),"
        f" reached {number(top.mean or 0.0)} on its best panel (a maximum, which flatters)."
    )


def on_which_seeds(story: Story) -> list[str]:
    """The seeds behind the winner's score, and what they allow to be claimed."""
    best = story.best
    if best is None:
        return []
    if best.fresh and has_holdout(story):
        return [
            f"{many(best.episodes, 'episode')} with fresh seeds, and on no fresh days: their"
            " windows lie on days on which pods were scored, and by which this policy was chosen."
            " So the mean flatters, and its interval is too narrow for other days: of those the"
            " holdout tells."
        ]
    if best.fresh:
        if target := _confirming(story, best):
            return [
                f"{many(best.episodes, 'episode')} with fresh seeds: nothing of the run had been"
                f" trained or compared on them. They also decided that the target is reached"
                f" ({target}), so quote the lower end, {number(best.low)}; the mean flatters a"
                " little. It speaks of this policy on this environment, not of another run."
            ]
        if best.seeds == "report":
            return [
                f"{many(best.episodes, 'episode')} with fresh seeds: nothing of the run had been"
                " trained, compared or chosen on them, and nothing was decided by them afterwards"
                " (the report set, read once). So the mean is unbiased. It speaks of this policy on"
                " this environment, not of another run."
            ]
        among = f", and allows for the choice among {best.candidates}" * (best.candidates > 1)
        return [
            f"{many(best.episodes, 'episode')} with fresh seeds: nothing of the run had been"
            f" trained or compared on them before. They chose it (the {best.seeds} set; the report"
            f" set was not played), so the mean flatters. The interval is of that mean{among}. It"
            " speaks of this policy on this environment, not of another run."
        ]
    return [
        f"The panel of its round: {many(best.episodes, 'episode')}. It is the best of"
        f" {many(best.candidates, 'evaluation')}, and a maximum flatters; the interval is widened"
        " for that. No score on fresh seeds is there"
        + ("." if story.board.phase == "finished" else " yet.")
    ]


def _confirming(story: Story, best: Best) -> str:
    """The attempt at the target that the winner's score is of; empty if it is of finals.

    An attempt is of one checkpoint, on as many sets of fresh seeds as it takes.
    """
    scores = [each for each in story.board.confirmed if each.purpose == "confirm"]
    tried = list(dict.fromkeys((each.pod, each.round) for each in scores))
    for each in scores:
        if each.passed and (each.pod, each.round, each.mean) == (best.pod, best.round, best.mean):
            place = 1 + tried.index((each.pod, each.round))
            return f"attempt {place} of {max(story.board.attempts, len(tried))}"
    return ""


def why_it_won(story: Story) -> list[str]:
    """The lineage of the winner in words."""
    if not story.lineage:
        return []
    founder, *copies = story.lineage
    kind = "a control, with default hyperparameters" if founder.control else "a fresh draw"
    if founder.origin is not None:
        kind = f"which {short(founder.origin.begun)}"
    if founder.repeats is not None:
        kind = f"a replicate of {short(founder.repeats)}, its hyperparameters with another seed"
    rows = story.rounds.get(founder.id, [])
    first = f" It scored {_mean(rows[0])} in its first round." if rows else ""
    said = [f"It goes back to {short(founder.id)}, {kind}: {_values(story, founder)}.{first}"]
    shown = copies[-MOST_NAMES:]
    if len(copies) > len(shown):
        said.append(f"{len(copies) - len(shown)} copies later:")
    for pod in shown:
        evidence = f", because {short(_rounded(pod.evidence), 240)}" if pod.evidence else ""
        said.append(
            f"{short(pod.id)} was copied from {short(pod.parent or '-')} at round"
            f" {pod.parent_round}, in place of {short(pod.replaces or '-')}{evidence}."
            f" Changed: {short(moved(story, pod), 160)}. {_then(story, pod)}".rstrip()
        )
    if not copies:
        said.append("No copy lies on its way: it kept the hyperparameters that it began with.")
    return said


def _mean(row: Result) -> str:
    return number(row.mean) if row.mean is not None else "nothing"


def _values(story: Story, pod: PodState) -> str:
    space = story.algorithms.get(pod.algorithm)
    names = space.ranged if space is not None else ()
    said = [f"{name} {_value(pod.hyperparameters.get(name))}" for name in names[:MOST_NAMES]]
    return ", ".join(said) or "nothing to search"


def _value(value: object) -> str:
    return number(value) if isinstance(value, float) else short(str(value))


def _rounded(text: str) -> str:
    """A text whose numbers have three or four digits."""
    return re.sub(r"\d{1,15}\.\d{2,}", lambda found: number(float(found[0])), text)


def _then(story: Story, pod: PodState) -> str:
    rows = story.rounds.get(pod.id, [])
    if not rows:
        return ""
    first, last = rows[0], rows[-1]
    if first is last:
        return f"It scored {_mean(first)} in round {first.round}."
    return f"It scored {_mean(first)} in round {first.round}, {_mean(last)} in round {last.round}."


def at_what_cost(story: Story) -> list[str]:
    """Steps, hours, pods."""
    status, board = story.status, story.board
    hours = f"{number(status.core_hours)} core-hours"
    if status.gpu_hours:
        hours = f"{number(status.gpu_hours)} GPU-hours, {hours}"
    requeued = f", {many(status.requeues, 'requeue')}" if status.requeues else ""
    copies = "1 copy" if status.copies == 1 else f"{status.copies} copies"
    old = "" if board.phase == "finished" else " Hours of slots at work are up to a minute old."
    return [
        f"{count(board.env_steps)} environment steps in {many(board.rounds, 'round')} of"
        f" {many(len(board.pods), 'pod')} ({copies})."
        f" {duration(60 * status.minutes)} since the first slot began, {hours} of"
        f" {many(len({row.slot for row in story.results}), 'slot')}{requeued}.{old}"
    ]


def doubts(story: Story) -> Iterator[str]:
    """The limits of what is shown."""
    best, board = story.best, story.board
    if best is None:
        return
    yield (
        "One run is one sample: with another seed another pod may win. Several runs side by side"
        " (hpcpod report RUN RUN ...) show how much that is."
    )
    finals = [score for score in board.confirmed if score.purpose == "final" and score.episodes]
    if not best.fresh and board.phase == "finished":
        yield "The winner was chosen and scored by the same panels: its score is optimistic."
    close = [score.pod for score in finals if score.pod != best.pod and score.high >= best.low]
    if close:
        named, one = listed([short(pod) for pod in close]), len(close) == 1
        yield (
            f"The interval{'' if one else 's'} of {named} overlap{'s' if one else ''} the winner's."
        )
    failed = Counter(row.failure_kind for row in story.results if row.failure_kind)
    if failed:
        said = listed([f"{many(n, 'order')} ({kind})" for kind, n in sorted(failed.items())])
        yield f"Failed: {said}; see below."
    if story.quarantined:
        yield f"{many(len(story.quarantined), 'damaged file')} set aside; see below."
    if not any(pod.control for pod in board.pods.values()):
        yield "There was no control with default hyperparameters to measure the gain by."


def _clock(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds))
