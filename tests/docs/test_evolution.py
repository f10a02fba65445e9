"""The page on evolution: its parts are there, and its code runs on a run with decisions."""

from __future__ import annotations

import re
from pathlib import Path

from hpcpod import plugins
from hpcpod.config.schema import PopulationConfig
from tests.docs.pages import block, page, run_script
from tests.run.test_decisions import play
from tests.support.small_runs import create

PAGE = page("evolution.md")


def test_its_table_names_every_part_and_the_defaults() -> None:
    text = PAGE.read_text(encoding="utf-8")
    for part in ("updater", "generator", "allocator"):
        (row,) = re.findall(rf"^\| `{part}` \|.*$", text, re.MULTILINE)
        default, *others = re.findall(r"`(\w+)`", row.partition("|")[2].partition("|")[2])
        assert default == getattr(PopulationConfig(), part)
        assert {default, *others} == set(plugins.known(f"{part}s"))


def test_its_code_shows_the_decisions_of_a_run(tmp_path: Path) -> None:
    population = {"pods": {"min": 1, "max": 4}, "warmup_rounds": 0}
    folder = create(tmp_path / "runs", name="cartpole", population=population, stop={"rounds": 9})
    decided = play(folder, 4)
    shown = run_script(block(PAGE, "python", "run.decisions"), tmp_path).splitlines()
    assert len(shown) == len(decided)
    assert shown[-1].endswith(decided[-1].outcome)
