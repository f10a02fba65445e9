"""Templates of scripts: found, filled in, refused when a name in them is unknown.

Only ``@{name}`` is a variable, so a template is an ordinary shell script: its ``$NAME``,
``$(...)`` and ``${array[@]}`` stay as they are.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from hpcpod._version import PACKAGE
from hpcpod.config.site import expanded
from hpcpod.errors import UserError
from hpcpod.plugins import suggest

_VARIABLE = re.compile(r"@\{(\w+)\}")
_ALONE = re.compile(r"^@\{(\w+)\}\n", re.MULTILINE)


def template_folder(name_or_path: str) -> Path:
    """The folder of templates behind ``cluster.template``: ``default``, or a path.

    Raises:
        UserError: there is no such folder.
    """
    if name_or_path == "default":
        package = PACKAGE
        # In an installed wheel the folder is in the package, in a checkout beside it.
        candidates = [package / "slurm_templates", package.parent / "slurm_templates"]
    else:
        candidates = [expanded(name_or_path)]
    for folder in candidates:
        if folder.is_dir():
            return folder
    raise UserError(
        f"cluster.template: there is no folder {candidates[-1]}"
        " (want 'default', or a folder with templates of your own)"
    )


def load(name_or_path: str, file: str) -> str:
    """A template's text; what a folder of one's own lacks is taken from the default.

    Raises:
        UserError: there is no such folder, or the file can't be read.
    """
    path = template_folder(name_or_path) / file
    if not path.exists():
        path = template_folder("default") / file
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"the template {path} can't be read: {error}") from error


def render(template: str, values: Mapping[str, str]) -> str:
    """The template with every ``@{name}`` replaced; a line of nothing but an empty one goes.

    Raises:
        UserError: the template names a variable that is not among ``values``.
    """
    unknown = sorted({name for name in _VARIABLE.findall(template) if name not in values})
    if unknown:
        named = ", ".join(f"@{{{name}}}" for name in unknown)
        hint = suggest(unknown[0], sorted(values))
        raise UserError(
            f"unknown in a template: {named}{hint} (known: {', '.join(sorted(values))})"
        )
    text = _ALONE.sub(lambda match: match[0] if values[match[1]] else "", template)
    return _VARIABLE.sub(lambda match: values[match[1]], text)
