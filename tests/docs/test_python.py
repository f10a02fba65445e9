"""The page on Python, run as it stands there, but for its tournament: the README's test has one."""

from __future__ import annotations

import pkgutil
import re
from pathlib import Path

import hpcpod
from hpcpod.run.run import Run
from tests.docs.pages import block, page, run_script

PAGE = page("python.md")


def test_its_code_prints_what_it_says(tmp_path: Path) -> None:
    code = block(PAGE, "python", "import hpcpod").partition("if __name__")[0]
    printed, score, shape = run_script(code, tmp_path).splitlines()
    shown = re.findall(r"# (\[.*\])", code)[0]
    for curve in (eval(shown), eval(printed)):  # the page's own words, and this machine's
        assert len(curve) == 10
        assert curve[0] < 0.6 * max(curve[-3:])  # it rises
    assert float(score) > 475 and float(re.findall(r"# ([\d.]+): of", code)[0]) > 475
    assert f"# {shape}" in code


def test_its_names_are_public_and_a_run_has_what_it_says() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert set(re.findall(r"hpcpod\.(\w+)", text)) == set(hpcpod.__all__)
    methods = re.findall(r"`(\w+)\(\)`", text)
    assert len(methods) == 14 and all(callable(getattr(Run, name)) for name in methods)


def test_the_page_of_the_api_shows_each_public_name() -> None:
    public = page("api.md").read_text(encoding="utf-8").partition("\n## hpcpod\n")[2]
    named = re.findall(r"^::: (\S+)$", public.partition("\n## ")[0], re.MULTILINE)
    shown = [pkgutil.resolve_name(name) for name in named]
    assert [name for name in hpcpod.__all__ if getattr(hpcpod, name) not in shown] == []
