"""The page on configurations: its example is valid, its other settings load, its fields exist."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

from hpcpod.config.loader import from_mapping
from tests.docs.pages import blocks, page, said

PAGE = page("configuration.md")


def test_its_example_is_valid(tmp_path: Path) -> None:
    [example] = blocks(PAGE, "yaml")
    (tmp_path / "mine.yaml").write_text(example, encoding="utf-8")
    assert "name: cartpole" in said(tmp_path, "hpcpod", "validate", "mine.yaml")


def test_its_further_settings_load() -> None:
    [example] = blocks(PAGE, "yaml")
    text = PAGE.read_text(encoding="utf-8")
    further = re.findall(r"`((?:pod|resources): \{[^`]*\})`", text)
    assert len(further) == 2
    for setting in further:
        from_mapping({**yaml.safe_load(example), **yaml.safe_load(setting)})


def test_the_environments_of_their_page_load() -> None:
    [example] = blocks(PAGE, "yaml")
    rows = re.findall(r"^\| (`\{.*?\}`) ", page("environments.md").read_text("utf-8"), re.MULTILINE)
    named = [part for row in rows for part in re.findall(r"`(\{id: [^`]*\})`", row)]
    assert len(named) == 9
    for env in named:
        if "..." not in env:
            from_mapping({**yaml.safe_load(example), "env": yaml.safe_load(env)})
