"""The holdout of a trading run, or of a sweep over folds, as it was last opened."""

from __future__ import annotations

from collections.abc import Sequence

from hpcpod.errors import HpcpodError
from hpcpod.report.markup import Markup, joined, tag
from hpcpod.report.plot import table
from hpcpod.report.story import Story
from hpcpod.run.best_policy import kept
from hpcpod.run.sweeps.design import run_name
from hpcpod.run.sweeps.folder import Sweep, home_of
from hpcpod.storage.run_folder import RunFolder
from hpcpod.trading.ledger import LEDGERS, digest_of
from hpcpod.trading.verdict import BACKENDS, FOLD, HEADS, Verdict, cells, verdicts


def has_holdout(story: Story) -> bool:
    """True of a trading run."""
    return story.config.env.backend in BACKENDS


def holdout(story: Story) -> Markup:
    """The verdict, its table, and what the other intervals of the page are of."""
    narrow = tag(
        "p",
        "All other intervals of this page are of episodes whose windows lie on the same days, again"
        " and again: they tell policies apart on these days, and are too narrow for others.",
    )
    found = verdicts(home_of(story.folder) / LEDGERS, story.name)
    if not found:
        never = (
            f"It was not opened yet: hpcpod evaluate {story.name} --holdout does, and counts it."
        )
        return joined([tag("p", never, class_="none"), narrow])
    last = found[-1]
    words = [_sentence(last.words)]
    words += [] if last.trials is None else [last.trials.words]
    words += filter(None, [last.of_paper(story.config.env.kwargs)])
    if last.openings[-1].policy != _delivered([RunFolder.open(story.folder)]):
        words.append("It was opened for other policies than the one that this run delivers now.")
    rows = [list(cells(row)) for row in last.rows]
    return joined([
        tag("p", " ".join(words)),
        table(list(HEADS), rows, f"{last.first} to {last.last}, with equal fills and costs for all;"
              " intervals of 95 %, by a stationary bootstrap of the same days"),
        narrow,
    ])  # fmt: skip


def over_folds(sweep: Sweep) -> bool:
    """True of a sweep whose holdouts are opened together."""
    return [factor.path for factor in sweep.factors] == [FOLD]


def folds(sweep: Sweep) -> Markup:
    """A row for each fold whose holdout was opened for what it delivers now, and the verdict on all
    of them together."""
    from hpcpod.trading import walk  # numpy: no report of other runs loads it

    found: dict[int, Verdict] = {}
    ledger, names = home_of(sweep.path) / LEDGERS, walk.by_fold(sweep.cells)
    for fold, same in names.items():
        opened = verdicts(ledger, run_name(sweep.name, same[0]))
        if not opened:
            continue
        delivered = _delivered([sweep.run(cell).folder for cell in same])
        ours = [each for each in opened if each.openings[-1].policy == delivered]
        if ours:
            found[fold] = ours[-1]
    if not found:
        how = f"hpcpod evaluate {sweep.name} --holdout opens all of them, and counts it."
        return tag("p", f"None was opened yet: {how}", class_="none")
    whole = len(found) == len(names) > 1
    said = _sentence(walk.walk(found).words) if whole else (
        f"{len(found)} of {len(names)} were opened."
    )  # fmt: skip
    rows = [list(walk.fold_cells(fold, each)) for fold, each in found.items()]
    return joined([
        tag("p", said),
        table(list(walk.HEADS), rows, "Each fold's policy on its own holdout; intervals of 95 %, by"
              " a stationary bootstrap of the same days"),
    ])  # fmt: skip


def _delivered(runs: Sequence[RunFolder]) -> str:
    """The policies that runs deliver now, as an opening names them; "" if one can't be read."""
    try:
        return digest_of([kept(each).checkpoint for each in runs])
    except (HpcpodError, OSError):
        return ""


def _sentence(words: str) -> str:
    return f"{words[0].upper()}{words[1:]}."
