"""Every fenced block of the pages: YAML by the loader, commands by the parser, Python by running.

Pages with a test of their own are run by that; here their blocks are read. Of all other pages the
Python is run, over one small tournament, unless its fence says that it is another library's.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from hpcpod.cli.parser import main, parser
from hpcpod.config.loader import from_mapping, load_file
from hpcpod.config.site import read_site
from hpcpod.run.sweeps.cells import read_plan
from tests.docs.pages import ROOT, fences, files_of, page, run_script, said
from tests.test_demo import form

PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(ROOT.glob("docs/*.md"))]
RULES = [f"bring-your-own-{kind}.md" for kind in ("updater", "generator", "allocator", "evaluator")]
TESTS = {
    path: ROOT / "tests" / "docs" / f"test_{path.stem.lower().replace('-', '_')}.py"
    if path.name not in RULES else ROOT / "tests" / "docs" / "test_bring_your_own_rules.py"
    for path in PAGES
}  # fmt: skip
"""For each page the test of its own, if there is one: then that runs its files and its Python."""
OPEN = [path for path in PAGES if not TESTS[path].exists()]
"""Pages without one."""
BASE = {
    "name": "base",
    "env": {"id": "CartPole-v1"},
    "population": {"algorithms": {"ppo": 1}},
    "stop": {"minutes": 1},
}
"""A configuration into which parts of one are laid."""
SMALL = {
    "population.pods.max": "2", "round.env_steps": "2048", "round.episodes": "4",
    "agents.dqn.learning_starts": "100", "stop.rounds": "2", "stop.confirm_episodes": "4",
    "cluster.slots": "1", "stop.target": "null",
}  # fmt: skip
"""Makes a tournament of seconds of ``mine.yaml``."""
OTHERS = "theirs"
"""Name in a fence: another library's Python, which was run by hand."""


def lines(path: Path) -> list[list[str]]:
    """The words of each command of a page."""
    shell = [text for language, _, text in fences(path) if language in ("bash", "sh")]
    typed = "".join(shell).replace("\\\n", " ").splitlines()
    return [words for line in typed if (words := shlex.split(line, comments=True))]


def laid(part: Mapping[str, Any]) -> dict[str, Any]:
    """A part of a configuration, in a whole one."""
    whole: dict[str, Any] = dict(BASE)
    for key, value in part.items():
        old = whole.get(key)
        whole[key] = (
            {**old, **value} if isinstance(old, dict) and isinstance(value, dict) else value
        )
    return whole


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_each_block_says_what_it_is_in_and_can_be_read(path: Path, tmp_path: Path) -> None:
    for language, name, text in fences(path):
        assert language in ("", "yaml", "toml", "python", "bash", "sh", "text", "diff")
        if language == "python":
            compile(text, f"{path.name}:{name}", "exec")
        elif language in ("bash", "sh"):
            subprocess.run(["bash", "-n"], input=text, text=True, check=True)
        elif language == "toml" and sys.version_info >= (3, 11):
            import tomllib

            tomllib.loads(text)
        elif language == "yaml" and "\nsweep:" in f"\n{text}":
            whole = text if name else yaml.safe_dump(laid(yaml.safe_load(text)))
            (tmp_path / "sweep.yaml").write_text(whole, encoding="utf-8")
            assert read_plan(tmp_path / "sweep.yaml") is not None
        elif language == "yaml" and not name:
            from_mapping(laid(yaml.safe_load(text)))
        elif language == "yaml":
            (tmp_path / name).write_text(text, encoding="utf-8")
            (read_site if name == "site.yaml" else load_file)(tmp_path / name)


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_each_command_of_ours_is_one(path: Path) -> None:
    ours = [words[1:] for words in lines(path) if words[0] == "hpcpod" and "--version" not in words]
    for words in ours:
        parser().parse_args(words)
    for words in lines(path):  # files in the repository that commands name
        for word in words:
            if word.startswith("configs/"):
                assert (ROOT / word).is_file(), word


@pytest.mark.long
@pytest.mark.parametrize("path", OPEN, ids=lambda path: path.name)
def test_what_is_launched_is_valid(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, text in files_of(path).items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    (tmp_path / "configs").symlink_to(ROOT / "configs")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")  # a page may launch on a GPU
    for words in lines(path):
        if words[:2] not in (["hpcpod", "launch"], ["hpcpod", "validate"]) or "--env" in words:
            continue
        asked = [word for word in words[2:] if word != "--dry-run"]
        assert main(["validate", *asked, "--no-probe"]) == 0, capsys.readouterr()


def test_the_tests_of_pages_with_python_take_it_from_them() -> None:
    own = [path for path in PAGES if path not in OPEN]
    python = [path for path in own if any(language == "python" for language, *_ in fences(path))]
    assert len(python) >= 8 and page("slurm.md") in own
    for path in python:
        text = TESTS[path].read_text(encoding="utf-8")
        assert re.search(r'"python"|FILES|files_of', text), path.name


@pytest.mark.long
def test_the_python_of_the_pages_runs_over_a_small_tournament(tmp_path: Path) -> None:
    mine = files_of(page("cartpole.md"))["mine.yaml"]
    (tmp_path / "mine.yaml").write_text(mine, encoding="utf-8")
    options = [word for key, value in SMALL.items() for word in ("--set", f"{key}={value}")]
    launched = said(tmp_path, "hpcpod", "launch", "mine.yaml", *options)
    ours = ["import hpcpod\nhpcpod.open_run('mine').export('cartpole.h5')\n"]
    ours += [
        re.sub(r'open_run\("(?!no-such)[\w-]+"\)', 'open_run("mine")', text)
        .replace("/usr/bin/python3", sys.executable).replace("20_000", "300")
        for path in OPEN
        for language, name, text in fences(path) if language == "python" and name != OTHERS
    ]  # fmt: skip
    assert len(ours) > 8
    for number, text in enumerate(ours):
        (tmp_path / f"{number}.py").write_text(text, encoding="utf-8")
    run = f"import runpy\nfor number in range({len(ours)}):\n    runpy.run_path(f'{{number}}.py')\n"
    out = run_script(run, tmp_path)
    assert re.search(r"^\d+ steps of 500$", out, re.MULTILINE)
    assert "there is no run at no-such-run" in out

    # Lines of pods and of the best; the others tell of minutes that this tournament does not take.
    forms = {form(line) for line in launched.splitlines()}
    shown = [text for language, _, text in fences(page("hello-world.md")) if language == "text"]
    # The small one has a finalist alone, of whom nothing is to be selected.
    lines_of = r"^(?:p\d|best)(?!.*select set).*"
    told = {form(line) for line in re.findall(lines_of, "".join(shown), re.MULTILINE)}
    assert len(told) == 3 and told - forms == set()
