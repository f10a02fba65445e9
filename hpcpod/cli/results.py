"""The verb ``results``: a run as data, in tables and files."""

from __future__ import annotations

from argparse import Namespace
from typing import TYPE_CHECKING

from hpcpod.cli.output import say, say_json, wrapped
from hpcpod.errors import UserError
from hpcpod.run.run import Run, open_run
from hpcpod.run.text import many

if TYPE_CHECKING:
    from hpcpod.run.data import Look


def results(options: Namespace) -> int:
    """``hpcpod results``: the tables of a run, or files of them."""
    from hpcpod.run.data import TABLES, Look, as_dicts, columns_of, table_of
    from hpcpod.run.data_files import as_csv, write_csv, write_optuna

    for name in options.tables:
        table_of(name)
    run, names = open_run(options.run), options.tables or [*TABLES]
    if options.json and (options.csv or options.optuna):
        raise UserError("--json prints, --csv and --optuna write files: take one of them")
    if options.columns and options.json:
        say_json({name: {"rows": TABLES[name].text, **TABLES[name].columns} for name in names})
        return 0
    if options.columns:
        for name in names:
            _say_columns(name)
        return 0
    look = Look(run.folder)
    if options.json:
        say_json({name: as_dicts(columns_of(look, name)) for name in names})
    elif options.csv or options.optuna:
        if options.csv:
            for path in write_csv(look, options.csv, names, overwrite=options.overwrite):
                say(str(path))
        if options.optuna:
            say(str(write_optuna(look, options.optuna, overwrite=options.overwrite)))
    elif options.tables:
        for name in names:
            say(as_csv(columns_of(look, name)).removesuffix("\n"))
    else:
        _say_tables(run, look)
    return 0


def _say_tables(run: Run, look: Look) -> None:
    from hpcpod.run.data import TABLES, columns_of

    for name, table in TABLES.items():
        columns = columns_of(look, name)
        rows = len(next(iter(columns.values())))
        say(f"{name:12} {many(rows, 'row'):>12}   {table.text}")
    say()
    say(f"columns:   hpcpod results {run.word} --columns")
    say(f"as files:  hpcpod results {run.word} --csv DIR")
    say(f"printed:   hpcpod results {run.word} --table pods")
    say(f"in Python: hpcpod.open_run({str(run.path)!r}).table('pods')")


def _say_columns(name: str) -> None:
    from hpcpod.run.data import TABLES

    table = TABLES[name]
    say(f"{name}: {table.text}")
    for column, text in table.columns.items():
        for line in wrapped(text, f"  {column}: ", 6):
            say(line)
    say()
