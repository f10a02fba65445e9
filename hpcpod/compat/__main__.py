"""Print the search space of a script of Optuna's or Ray Tune's, as a configuration has it.

``python -m hpcpod.compat train.py`` runs the script up to ``optimize`` or ``fit``, and an objective
of Optuna's up to its first report, with values from the middle of each range. What an objective
suggests after that, or on another branch, is not seen: add it by hand.
"""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

from hpcpod.compat import rounds
from hpcpod.program.session import SessionError


def main(arguments: list[str]) -> int:
    """Run a script to learn its search space; the exit code."""
    usage = "usage: python -m hpcpod.compat SCRIPT.py [ARGUMENT ...]"
    if not arguments or arguments[0] in ("-h", "--help"):
        print((__doc__ or "") + usage, file=sys.stderr)  # noqa: T201
        return 0 if arguments else 2
    if not Path(arguments[0]).is_file():
        print(f"there is no script {arguments[0]}; {usage}", file=sys.stderr)  # noqa: T201
        return 2
    rounds.recording = True
    sys.argv = arguments
    sys.path.insert(0, str(Path(arguments[0]).resolve().parent))
    try:
        runpy.run_path(arguments[0], run_name="__main__")
    except SessionError as error:
        print(f"{arguments[0]}: {error}", file=sys.stderr)  # noqa: T201
        return 2
    print(  # noqa: T201
        f"{arguments[0]} came to its end without study.optimize or Tuner.fit of hpcpod.compat",
        file=sys.stderr,
    )
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
