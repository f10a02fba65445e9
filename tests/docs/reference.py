"""Pages of the reference that follow from the code: the verbs, the fields, a run's columns.

``python -m tests.docs.reference`` writes ``PAGES`` in ``docs`` anew.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator

from hpcpod.cli.examples import EXAMPLES
from hpcpod.cli.parser import CHECK, ENVS_CHECK, EPILOG, VERBS, Verb
from hpcpod.config.manual import field_manual
from hpcpod.run.data import TABLES, columns_of_kind
from hpcpod.run.data_rows import RunRow
from hpcpod.run.evaluation.table import EvaluationRow
from tests.docs.pages import page

VERBS_HEAD = """\
# Verbs

Written from the parser by `python -m tests.docs.reference`: `hpcpod --help` and
`hpcpod VERB --help` say the same. RUN is a run's folder, or its name under `runs/` (or under
`$HPCPOD_RUNS`).
"""

FIELDS_HEAD = """\
# Every field

Written from the schema by `python -m tests.docs.reference`: `hpcpod validate --fields` says the
same. [A configuration](configuration.md) says how to write one.
"""


COLUMNS_HEAD = """\
# Columns of a run's tables

Written from the rows' docstrings by `python -m tests.docs.reference`:
`hpcpod results RUN --columns` says the same. [A run as data](data.md) says how to get them. A
column `metrics.*` stands for one for each metric, such as `metrics.loss`.
"""


def verbs_page() -> str:
    """The text of the page on verbs."""
    codes = re.findall(r"^Exit codes: (.*)$", EPILOG, re.MULTILINE)[0]
    parts = [f"{VERBS_HEAD}\nExit codes: {codes}\n"]
    for name, verb in VERBS.items():
        parts += _verb(name, verb, EXAMPLES.get(name))
        if name == "envs":
            parts += _verb("envs check", ENVS_CHECK._replace(text=CHECK.strip()), None)
    return "\n".join(parts)


def _verb(name: str, verb: Verb, examples: str | None) -> Iterator[str]:
    """The lines of a verb."""
    made = argparse.ArgumentParser(add_help=False)
    actions = [made.add_argument(*names, **options) for names, options in verb.arguments]
    words = [_word(action) for action in actions if not action.option_strings]
    yield f"## {' '.join([name, *words])}\n"
    yield f"{_escaped(verb.text[0].upper() + verb.text[1:])}\n"
    if actions:
        yield "| argument | meaning |\n|---|---|"
        for action in actions:
            text = _escaped(" ".join((action.help or "").split())).replace("|", "\\|")
            names = ", ".join(action.option_strings) or action.metavar
            yield f"| `{names}{_value(action)}` | {text} |"
        yield ""
    if examples:
        yield f"```text\n{examples.strip()}\n```\n"


def _word(action: argparse.Action) -> str:
    return f"[{action.metavar}]" if action.nargs == "?" else str(action.metavar)


def _value(action: argparse.Action) -> str:
    """The value of an option, after a space; empty of a flag and of a positional."""
    if not action.option_strings or action.nargs == 0:
        return ""
    choices = action.choices and "{" + ",".join(map(str, action.choices)) + "}"
    return f" {action.metavar or choices or action.dest.upper()}"


def fields_page() -> str:
    """The text of the page on fields."""
    ranges, *sections = re.split(r"\n\n(?=\S)", field_manual())
    lines = [FIELDS_HEAD, _escaped(ranges.replace("    ", "- ").replace("of\n", "of\n\n")), ""]
    for section in sections:
        lines += _section(section.splitlines())
    return "\n".join(lines).rstrip() + "\n"


def columns_page() -> str:
    """The text of the page on the columns of a run's tables."""
    parts = [(name, table.text, table.columns) for name, table in TABLES.items()]
    parts.append(("hpcpod.compare", "a run", columns_of_kind(RunRow)))
    scored = columns_of_kind(EvaluationRow, ["returns"])
    parts.append(("hpcpod.evaluate", "a policy in a condition", scored))
    lines = [COLUMNS_HEAD]
    for name, text, columns in parts:
        lines += [f"## {name}\n", f"A row is {text}.\n", "| column | meaning |\n|---|---|"]
        for column, meaning in columns.items():
            said = _escaped(" ".join(meaning.split())).replace("|", "\\|")
            lines.append(f"| `{column}` | {said} |")
        lines.append("")
    return "\n".join(lines)


def _section(lines: list[str]) -> Iterator[str]:
    """The lines of a section of the manual: its name or its first field, texts below each."""
    for line in lines:
        field = re.fullmatch(r"(\S+): (.*)", line)
        if field:
            yield f"\n### {field[1]}\n\n`{field[2]}`\n"
        elif line and not line.startswith(" "):
            yield f"\n## {line}\n"
        else:
            yield _escaped(line.strip())


def _escaped(text: str) -> str:
    """A text in which Markdown sees no tag and no emphasis."""
    return text.replace("<", "&lt;").replace("*", "\\*")


PAGES = {"verbs.md": verbs_page, "fields.md": fields_page, "columns.md": columns_page}

if __name__ == "__main__":
    for name, text in PAGES.items():
        page(name).write_text(text(), encoding="utf-8")
