"""``hpcpod evaluate RUN --holdout``: the last word on a trading run."""

from __future__ import annotations

from argparse import Namespace
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from hpcpod.cli.output import say, say_json, wrapped
from hpcpod.errors import UserError
from hpcpod.run.run import Run, open_run

if TYPE_CHECKING:
    from rich.table import Table

    from hpcpod.trading.holdout import Verdict

LEDGERS = "holdouts"
"""Folder beside the runs, in which every opening of a holdout is counted."""


def holdout(options: Namespace) -> int:
    """Open the holdout for a run's policy, or for an ensemble of its pods, and print the verdict.

    Raises:
        UserError: it is no trading run, or several runs are named.
    """
    from hpcpod.run.best_policy import kept
    from hpcpod.trading.holdout import judge_files

    if len(options.policies) > 1:
        raise UserError("a holdout is opened for one run: name one")
    run = open_run(options.policies[0])
    resolved = run.folder.resolved
    # Its features may be code, too: whoever only looks must not run another user's.
    run.folder.owner.require_code(resolved.own_code(), "open its holdout")
    agents = {space.agent for space in resolved.algorithms.values()}
    pods = options.pods or [None]
    policies = {pod or "best": kept(run.folder, pod).checkpoint for pod in pods}
    ledger = run.path.absolute().parent / LEDGERS
    found = judge_files(resolved.config, policies, ledger, agents=agents, trust=options.trust)
    if options.json:
        say_json({**asdict(found), "words": found.words})
    else:
        _show(found, run)
    return 0


def _show(found: Verdict, run: Run) -> None:
    from rich.console import Console

    Console(width=150, highlight=False).print(_table(found))
    say()
    told = [found.words[0].upper() + found.words[1:] + "."]
    if found.overfitting is not None:
        told.append(f"Probability of backtest overfitting among the rows: {found.overfitting:.2f}.")
    told.append(
        "± is a Sharpe ratio's standard error; intervals are of 95 %, by a bootstrap of the same"
        " days. What was not traded on here, a market that has changed, no number tells."
    )
    for line in wrapped(" ".join(told), "", 0):
        say(line)


def _table(found: Verdict) -> Table:
    from hpcpod.run.tables import plain_table

    table = plain_table("the holdout, with equal fills and costs for all")
    heads = ("return", "a year", "volatility", "deepest fall", "Sharpe", "turnover a day",
             "in stocks", "policy ahead, bp a day")  # fmt: skip
    table.add_column("strategy")
    for head in heads:
        table.add_column(head, justify="right", no_wrap=True)
    for row in found.rows:
        table.add_row(row.name, *_cells(row))
    return table


def _cells(row: Any) -> list[str]:
    ahead = "" if row.ahead is None else f"{row.ahead:+.2f} [{row.low:+.2f}, {row.high:+.2f}]"
    return [
        f"{row.cumulative_return:+.1%}", f"{row.annual_return:+.1%}",
        f"{row.annual_volatility:.1%}", f"{row.deepest:.1%}",
        f"{row.sharpe:.2f} ± {row.sharpe_error:.2f}", f"{row.turnover:.1%}",
        f"{row.exposure:.0%}", ahead,
    ]  # fmt: skip
