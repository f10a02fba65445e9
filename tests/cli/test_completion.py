"""Completion in the real shells: TAB is pressed in a terminal, and the shell runs what it made."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pexpect
import pytest

from hpcpod.cli.completion import COMPLETERS, SHELLS
from hpcpod.cli.parser import ENVS_CHECK, VERBS, main
from tests.support.slots import ROOT

OPTIONS = {"bash": ["--norc", "--noprofile"], "zsh": ["-f"], "fish": ["--no-config"]}
SET_UP = {
    "bash": 'eval "$(hpcpod completion bash)"',
    "zsh": 'autoload -U compinit; compinit -u -D; eval "$(hpcpod completion zsh)"',
    "fish": "hpcpod completion fish | source",
}
HOSTILE = "a $(touch pwned) `touch pwned`; touch pwned & 'b\" | *"
"""The name of a run's folder, as another user of a shared disk may have made it."""
UNSAID = ("-rf", "new\nline", "red\x1b[31m")
"""Names that no shell is told of."""


def words(shell: str, folder: Path, *lines: str) -> list[list[str]]:
    """The words of each line, behind which TAB was pressed, as the shell has them when it runs."""
    if shutil.which(shell) is None:
        required = os.environ.get("CI") or os.environ.get("HPCPOD_REQUIRE_ALL")
        (pytest.fail if required else pytest.skip)(f"there is no {shell} on this machine")
    env = {
        **os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT), "TERM": "dumb", "HOME": str(folder),
    }  # fmt: skip
    child = pexpect.spawn(
        shell, OPTIONS[shell], cwd=str(folder), env=env, encoding="utf-8", timeout=120,
        dimensions=(50, 2000),
    )  # fmt: skip
    try:
        child.sendline(f"{SET_UP[shell]}; printf '%s-%s' set up")
        child.expect("set-up")
        for number, line in enumerate(lines):
            # Ctrl-A, Ctrl-E: the begin and the end of the line, for a command that shows its words.
            child.send(f"{line}\t\x01printf '%s\\0' \x05 > said-{number}; printf '%s-%s' is done\r")
            child.expect("is-done")
    finally:
        child.close(force=True)
    files = (folder / f"said-{number}" for number in range(len(lines)))
    return [file.read_text().split("\0")[1:-1] for file in files]


@pytest.fixture
def folder(home: Path, finished_run: Path) -> Path:
    """A working directory with a run to look at, and folders that are called as none should be."""
    runs = home / "runs"
    for name in (HOSTILE, *UNSAID):
        (runs / name).mkdir(parents=True)
        (runs / name / "config.json").write_text("{}")
    (runs / "my run").symlink_to(finished_run)
    (home / "tasks").mkdir()
    (home / "tasks" / "ant.yaml").write_text("")
    (home / "tasks" / "notes.txt").write_text("")
    return home


@pytest.mark.parametrize("shell", SHELLS)
def test_a_shell_completes_verbs_and_runs_and_executes_no_name(shell: str, folder: Path) -> None:
    made = words(shell, folder, "hpcpod leaderb", "hpcpod status a")
    assert made == [["leaderboard"], ["status", HOSTILE]]
    assert not (folder / "pwned").exists()


def test_pods_files_fields_and_states_are_completed_where_they_are_expected(folder: Path) -> None:
    asked = {
        "hpcpod why 'my run' p0001": ["why", "my run", "p0001"],
        "hpcpod launch tasks/": ["launch", "tasks/ant.yaml"],
        "hpcpod launch --set stop.mi": ["launch", "--set", "stop.minutes="],
        "hpcpod list --state finished,pau": ["list", "--state", "finished,paused"],
        "hpcpod envs check Acro": ["envs", "check", "Acrobot-v1"],
        "hpcpod results 'my run' --table pod": ["results", "my run", "--table", "pods"],
        "hpcpod status m": ["status", "my run"],
        "hpcpod status -r": ["status", "-r"],
        "hpcpod status n": ["status", "n"],
    }  # fmt: skip
    assert dict(zip(asked, words("bash", folder, *asked), strict=True)) == asked


def test_every_completer_is_of_an_argument_that_there_is() -> None:
    names = {
        str(options.get("dest", names[0].lstrip("-").replace("-", "_")))
        for verb in (*VERBS.values(), ENVS_CHECK)
        for names, options in verb.arguments
    }
    assert set(COMPLETERS) - names == set()


def test_an_unknown_shell_is_a_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["completion", "tcsh"])
    assert ended.value.code == 2
    assert "'tcsh' (choose from " in capsys.readouterr().err
