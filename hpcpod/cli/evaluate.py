"""The verb ``evaluate``: policies of any runs, scored on common seeds."""

from __future__ import annotations

import argparse
import contextlib
import re
import signal
import sys
from argparse import Namespace
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hpcpod.cli.arguments import Argument, arg, count, flag
from hpcpod.cli.output import say, say_json, wrapped
from hpcpod.errors import UserError

if TYPE_CHECKING:
    from rich.table import Table

    from hpcpod.run.evaluation.table import Evaluation, EvaluationRow


def evaluate(options: Namespace) -> int:
    """``hpcpod evaluate``: score policies, and print or write what they are worth."""
    if options.holdout:
        from hpcpod.cli.holdout import holdout

        return holdout(options)
    if options.beside:
        raise UserError("--beside is of --holdout")
    for given in options.overrides:
        if not (options.slurm and given.startswith(("cluster.", "cluster="))):
            raise UserError(
                f"--set {given}: it is for fields of cluster, beside --slurm; arguments of an"
                " environment are given by --kwargs"
            )
    from hpcpod.run.evaluation.evaluate import evaluate
    from hpcpod.run.evaluation.slurm import slurm_config
    from hpcpod.run.preflight import site_for
    from hpcpod.storage.disk import check_writable

    if options.csv is not None:
        check_writable(options.csv, overwrite=options.overwrite)
    site = site_for(options.site, "slurm" if options.slurm else "local")
    array = options.slurm and slurm_config(options.policies, {}, options.overrides, site)
    with as_ctrl_c(signal.SIGTERM, signal.SIGHUP):
        found = evaluate(
            options.policies, pods=options.pods, top=options.top, keep=options.keep,
            envs=options.env, kwargs=_kwargs(options.kwargs),
            wrappers=[_yaml(each) for each in options.wrapper], episodes=options.episodes,
            seeds=options.seeds, cores=options.cores, folder=options.folder, slurm=array,
            trust=options.trust, progress=True,
        )  # fmt: skip
    if options.csv is not None:
        from hpcpod.run.data_files import as_csv
        from hpcpod.storage.disk import Disk

        Disk().replace(options.csv.absolute(), as_csv(found.columns()).encode())
    if options.json:
        say_json(_plain(found))
    else:
        _show(found)
    return 0


@contextlib.contextmanager
def as_ctrl_c(*numbers: signal.Signals) -> Iterator[None]:
    """Have these signals end the body as Ctrl-C does, which leaves nothing behind; but for those
    that this process was told to ignore, as ``nohup`` does."""
    heard = [number for number in numbers if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, signal.default_int_handler) for number in heard}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _plain(found: Evaluation) -> dict[str, Any]:
    from hpcpod.records.records import encode

    return {"seeds": list(found.seeds), "rows": [encode(row) for row in found.rows]}


def _show(found: Evaluation) -> None:
    from rich.console import Console

    console = Console(width=None if sys.stdout.isatty() else 500, highlight=False)
    for condition in found.conditions[:1]:
        console.print(_detailed(found.of(condition)))
    if len(found.conditions) > 1:
        say()
        console.print(_side_by_side(found))
    say()
    for line in wrapped(_words(found), "", 0):
        say(line)


def _detailed(rows: Sequence[EvaluationRow]) -> Table:
    """The policies of one condition, best first."""
    from rich.text import Text

    from hpcpod.run.tables import interval, number, plain_table, visible

    named, env = rows[0].condition, rows[0].env
    table = plain_table(visible(env) if named == env else f"{named} ({visible(env)})")
    table.add_column("policy", overflow="fold")
    table.add_column("algorithm", overflow="fold")
    for column in ("round", "mean [95 %]", "sd", "IQM [95 %]", "P(> next) [95 %]"):
        table.add_column(column, justify="right", no_wrap=True)
    for row in rows:
        over = "-"
        if None not in (row.improves, row.improves_low, row.improves_high):
            over = f"{row.improves:.2f} [{row.improves_low:.2f}, {row.improves_high:.2f}]"
        table.add_row(
            Text(visible(row.policy)), Text(visible(row.agent)), str(row.round or "-"),
            interval(row.mean, row.low, row.high), number(row.sd),
            interval(row.iqm, row.iqm_low, row.iqm_high), over,
        )  # fmt: skip
    return table


def _side_by_side(found: Evaluation) -> Table:
    """Policies by conditions: the mean and its interval in each."""
    from rich.text import Text

    from hpcpod.run.tables import interval, plain_table, visible

    table = plain_table("mean return [95 %] in each condition")
    table.add_column("policy", overflow="fold")
    for condition in found.conditions:
        table.add_column(Text(visible(condition)), justify="right")
    scores = {
        (row.policy, row.condition): interval(row.mean, row.low, row.high) for row in found.rows
    }
    for row in found.of(found.conditions[0]):
        cells = (scores[row.policy, condition] for condition in found.conditions)
        table.add_row(Text(visible(row.policy)), *cells)
    return table


def _words(found: Evaluation) -> str:
    """The sentence on the episodes that were played, and on what the numbers are of."""
    from hpcpod.run.evaluation.evaluate import FIRST_SEED
    from hpcpod.run.evaluation.table import seeds_said
    from hpcpod.run.text import many

    row = found.rows[0]
    engines = " | ".join(dict.fromkeys(row.engine for row in found.rows))
    said = [f"{len(found.seeds)} episodes each, on the same seeds, {seeds_said(found.seeds)}"]
    if found.seeds[0] >= FIRST_SEED:
        said[0] += f": no run draws any of them, theirs are below {FIRST_SEED}"
    said.append(f"simulated by {engines}")
    if row.episodes < len(found.seeds):
        said.append(
            f"they were played on {row.episodes} stretches of recorded data, of which each counts"
            " once in the numbers"
        )
    if not all(each.paired for each in found.rows):
        said.append("an environment's seeds do not decide its episodes, so policies are not paired")
    if found.earlier:
        said.append(
            f"{many(found.earlier, 'episode')} had been played before, by the code of then, and"
            " came from the folder of scores"
        )
    if len(found.of(row.condition)) > 1:
        said.append(
            "an interval is its policy's alone: the first of several was chosen by these episodes,"
            " and its mean flatters it"
        )
    return "; ".join(said) + "."


def _kwargs(given: Sequence[str]) -> dict[str, list[Any]]:
    """``gravity=9.0,12.0`` each, as values by name."""
    found: dict[str, list[Any]] = {}
    for word in given:
        name, equals, text = word.partition("=")
        if not equals or not name.isidentifier() or not text.strip():
            raise UserError(f"--kwargs {word}: expected NAME=VALUE, or several with commas")
        found.setdefault(name, []).extend(_yaml(f"[{text}]", f"--kwargs {word}"))
    return found


def _yaml(text: str, said: str | None = None) -> Any:
    from hpcpod.config.scalars import Plain
    from hpcpod.config.yaml_file import NotYaml, parse

    try:
        data, problems = parse(text)
    except NotYaml as error:
        raise UserError(f"{said or f'--wrapper {text}'}: {error}") from error
    if problems:
        raise UserError(f"{said or f'--wrapper {text}'}: {problems[0]}")
    return data.text if isinstance(data, Plain) else data


def _seeds(text: str) -> int | range:
    found = re.fullmatch(r"(\d{1,12})(?::(\d{1,12}))?", text)
    if found is None or (found[2] is not None and int(found[2]) <= int(found[1])):
        raise argparse.ArgumentTypeError(
            f"expected the first seed, or first:end such as 1000:1064, got '{text}'"
        )
    return int(found[1]) if found[2] is None else range(int(found[1]), int(found[2]))


def _pods(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


EVALUATE_ARGUMENTS: tuple[Argument, ...] = (
    arg("policies", metavar="RUN|FILE", nargs="+",
        help="runs, by folder or name, and policies' files (.h5)"),
    arg("--pods", type=_pods, metavar="PODS",
        help="of each run these pods, with commas: p0001,p0002 (default: its best policy)"),
    arg("--top", type=count, metavar="K",
        help="of each run the pods of the first K rows of its leaderboard"),
    arg("--keep", choices=("best", "last"), default="best",
        help="of each pod the policy at its best evaluation (default), or its last one"),
    arg("--env", action="append", default=[], metavar="ID",
        help="score in this environment, not in the policies' own; may be given again"),
    arg("--kwargs", action="append", default=[], metavar="NAME=V,...",
        help="score with these values of a keyword argument of the environment, too, each a column:"
        " gravity=9.0,12.0; may be given again"),
    arg("--wrapper", action="append", default=[], metavar="PATH",
        help="score with this gymnasium wrapper around the environment, too, as in env.wrappers:"
        " pkg.mod:Name or '{pkg.mod:Name: {argument: 1}}'; may be given again"),
    arg("--episodes", type=count, metavar="N",
        help="episodes of each policy in each environment (default: 64)"),
    arg("--seeds", type=_seeds, metavar="A[:B]",
        help="the episodes' seeds: from A on, or A to B - 1 (default: from 2147483648 on, where no"
        " run draws any)"),
    arg("--cores", type=count, metavar="N",
        help="processes at once, of one core each (default: this machine's cores; on Slurm 16)"),
    arg("--folder", type=Path, metavar="DIR",
        help="keep the scores there, so that no episode is played twice (default: nowhere; with"
        " --slurm evaluations/)"),
    flag("--holdout", "of a trading run, or of a sweep over folds: open the holdout, beside"
         " baselines, and of a run of several algorithms beside the best pod of each as one"
         " ensemble; see docs/trading.md"),
    arg("--beside", action="append", default=[], metavar="RUN",
        help="with --holdout, this run's policy is a row, too, such as one trained on shuffled"
        " days; may be given again"),
    flag("--slurm", "play as an array of Slurm's jobs, and wait for them"),
    arg("--set", action="append", default=[], metavar="KEY=VALUE", dest="overrides",
        help="with --slurm, override a field of cluster (default: as the first run has it that"
        " trained on Slurm), such as cluster.partition=gpu; may be given again"),
    arg("--site", type=Path, metavar="FILE",
        help="with --slurm, what holds for every job at this site (default: $HPCPOD_SITE)"),
    flag("--trust", "take code that is not built in, though another user's policy names it"),
    arg("--csv", type=Path, metavar="FILE", help="write the rows as CSV, too"),
    flag("--overwrite", "write FILE even if it is there"),
    flag("--json", "print JSON, for scripts; it has the returns"),
)  # fmt: skip
