"""``hpcpod evaluate RUN --holdout``: the last word on a trading run, or on a sweep over folds."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

from hpcpod.cli.evaluate import EVALUATE_ARGUMENTS
from hpcpod.cli.output import say, say_json, wrapped
from hpcpod.errors import UserError
from hpcpod.run.run import Run, open_run
from hpcpod.run.sweeps.folder import Sweep, home_of, is_sweep, open_sweep

if TYPE_CHECKING:
    from rich.table import Table

    from hpcpod.trading.holdout import Files
    from hpcpod.trading.verdict import Verdict
    from hpcpod.trading.walk import Walk

MOST = 200
"""Policies of a run that are played on its selection part."""
_OWN = ("policies", "--pods", "--holdout", "--beside", "--trust", "--json")
"""Arguments of the verb that a holdout has, too."""


def holdout(options: Namespace) -> int:
    """Open the holdout for a run's policy, or for an ensemble of its pods, and print the verdict;
    of a sweep over folds each fold's.

    Raises:
        UserError: it is no trading run, or has not finished; several runs are named, or an option
            is of scores alone.
    """
    known = ArgumentParser()
    for names, given in EVALUATE_ARGUMENTS:
        argument = known.add_argument(*names, **given)
        if names[0] not in _OWN and getattr(options, argument.dest) != argument.default:
            raise UserError(f"{names[0]} is not of --holdout: leave it out; nothing was opened")
    if len(options.policies) > 1:
        raise UserError("a holdout is opened for one run: name one; others are --beside it")
    word = options.policies[0]
    if is_sweep(word):
        return _of_sweep(open_sweep(word), options)
    from hpcpod.run.best_policy import best_of_algorithms
    from hpcpod.trading.holdout import judge_files, require_holdout

    run, *beside = [open_run(each) for each in (word, *options.beside)]
    for each in (run, *beside):
        require_holdout(each.folder.resolved.config)
        if each.board().phase != "finished":
            end = f", or end it by `hpcpod stop {each.word}`" if each.folder.owner.mine else ""
            raise UserError(f"{each.name} has not finished, and a holdout is opened once: let it"
                            f" finish{end}")  # fmt: skip
    others = {each.name: _files([each], options) for each in beside}
    files = _files([run], options, options.pods)
    if not options.pods:
        files = replace(files, accounts=best_of_algorithms(run.folder))
    found = judge_files(files, _ledger(run), others)
    if options.json:
        say_json({**asdict(found), "words": found.words})
    else:
        _show(found, found.of_paper(files.config.env.kwargs))
    return 0


def _ledger(run: Run | Sweep) -> Path:
    from hpcpod.trading.ledger import LEDGERS

    return home_of(run.path) / LEDGERS


def _files(runs: Sequence[Run], options: Namespace, pods: Sequence[str] | None = None) -> Files:
    """The policies of a run, or of equal runs with several seeds."""
    from hpcpod.run.best_policy import every_policy, kept
    from hpcpod.trading.holdout import Files

    policies, tried, agents = dict[str, Path](), dict[str, Path](), set[str]()
    for run in runs:
        resolved = run.folder.resolved
        # Its features may be code, too: whoever only looks must not run another user's.
        run.folder.owner.require_code(resolved.own_code(), "open its holdout")
        agents |= {space.agent for space in resolved.algorithms.values()}
        lead = f"{run.name} " if len(runs) > 1 else ""
        named: Sequence[str | None] = pods or [None]
        for pod in named:
            policies[f"{lead}{pod or 'best'}"] = kept(run.folder, pod).checkpoint
        tried |= {f"{lead}{name}": path for name, path in every_policy(run.folder).items()}
    most = dict(list(tried.items())[:MOST])
    config = runs[0].folder.resolved.config
    return Files(config, policies, most, len(tried) - len(most), agents, options.trust)


def _of_sweep(sweep: Sweep, options: Namespace) -> int:
    """Open the holdout of every fold of a sweep; several seeds of a fold share the capital."""
    from hpcpod.report.holdout import over_folds
    from hpcpod.trading.holdout import judge_files, require_holdout
    from hpcpod.trading.verdict import FOLD
    from hpcpod.trading.walk import by_fold, walk

    if not over_folds(sweep):
        raise UserError(f"{sweep.name}: the holdouts of a sweep are opened if it is over {FOLD}")
    require_holdout(sweep.element)
    if options.pods or options.beside:
        raise UserError("--pods and --beside are of one run, not of a sweep")
    waiting = [cell.name for cell, outcome in sweep.rows() if outcome.fate != "finished"]
    if waiting:
        raise UserError(f"{sweep.name}: its run {waiting[0]} has not finished, and a holdout is"
                        " opened once: let all of them finish")  # fmt: skip
    files = {
        fold: _files([sweep.run(cell) for cell in same], options)
        for fold, same in by_fold(sweep.cells).items()
    }
    found = walk({fold: judge_files(each, _ledger(sweep)) for fold, each in files.items()})
    if options.json:
        say_json({**asdict(found), "edge": found.edge, "words": found.words})
    else:
        _show_walk(found)
    return 0


def _show(found: Verdict, of_paper: str) -> None:
    from rich.console import Console

    Console(width=150, highlight=False).print(_table(found))
    say()
    told = [found.words[0].upper() + found.words[1:] + "."]
    if found.trials is not None:
        told.append(found.trials.words)
    told += filter(None, [of_paper])
    told.append(
        "± is a Sharpe ratio's standard error; intervals are of 95 %, by a bootstrap of the same"
        " days. What was not traded on here, a market that has changed, no number tells."
    )
    for line in wrapped(" ".join(told), "", 0):
        say(line)


def _table(found: Verdict) -> Table:
    from rich.text import Text

    from hpcpod.run.tables import plain_table, visible
    from hpcpod.trading.verdict import HEADS, cells

    table = plain_table("the holdout, with equal fills and costs for all")
    table.add_column("strategy")
    for head in HEADS[1:]:
        table.add_column(head, justify="right", no_wrap=True)
    for row in found.rows:
        name, *numbers = cells(row)
        table.add_row(Text(visible(name)), *numbers)
    return table


def _show_walk(found: Walk) -> None:
    from rich.console import Console

    from hpcpod.run.tables import plain_table
    from hpcpod.trading.walk import HEADS, fold_cells

    table = plain_table("the holdouts of all folds")
    for head in HEADS:
        table.add_column(head, justify="right", no_wrap=head != HEADS[-1])
    for fold, each in found.folds.items():
        table.add_row(*fold_cells(fold, each))
    Console(width=150, highlight=False).print(table)
    say()
    again = max(each.times for each in found.folds.values())
    more = f" These holdouts were opened {again} times." if again > 1 else ""
    words = f"{found.words[0].upper()}{found.words[1:]}.{more} Intervals are of 95 %."
    for line in wrapped(words, "", 0):
        say(line)
