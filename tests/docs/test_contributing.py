"""The pages for contributors: their commands, paths and names are there."""

from __future__ import annotations

import re

import yaml

import hpcpod.testing
from hpcpod._version import __version__
from hpcpod.config.manual import field_manual
from tests.docs.pages import ROOT

PAGE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
CHANGES = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
TARGETS = set(
    re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
)


def test_its_targets_of_make_are_there() -> None:
    named = set(re.findall(r"(?:^|`)make ([a-z]+)", PAGE, re.MULTILINE))
    assert {"demo", "quick", "lint", "types", "floors", "test"} <= named <= TARGETS


def test_its_paths_are_there() -> None:
    named = set(re.findall(r"`((?:hpcpod|tests|docs)/[\w./]*)`", PAGE))
    named |= set(re.findall(r"\b(tests/[a-z_]+)\b(?!/)", PAGE))
    assert len(named) > 12
    assert [path for path in sorted(named) if not (ROOT / path).exists()] == []


def test_its_contracts_entry_points_and_fields_are_there() -> None:
    contracts = set(re.findall(r"`hpcpod\.testing\.(\w+)`", PAGE))
    assert contracts == set(hpcpod.testing.__all__)
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    for group in re.findall(r"entry point `hpcpod\.(\w+)`", PAGE):
        assert f'[project.entry-points."hpcpod.{group}"]' in project
    manual = field_manual()
    for field in re.findall(r"`((?:env|population)\.\w+)", PAGE):
        assert f"\n{field}" in manual, field


def test_the_hooks_are_the_commands_of_make() -> None:
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))
    [local] = hooks["repos"]
    assert [hook["entry"] for hook in local["hooks"]] == ["make lint", "make types", "make floors"]
    assert {hook["entry"].split()[1] for hook in local["hooks"]} <= TARGETS
    assert all(not hook["pass_filenames"] for hook in local["hooks"])


def test_the_changelog_has_this_version_first_and_keeps_the_format() -> None:
    versions = re.findall(r"^## \[(.+?)\](?: - (\d{4}-\d\d-\d\d))?$", CHANGES, re.MULTILINE)
    assert versions[0] == ("Unreleased", "")
    assert versions[1][0] == __version__
    assert all(date for _, date in versions[1:])
    kinds = set(re.findall(r"^### (.+)$", CHANGES, re.MULTILINE))
    assert kinds <= {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}


def test_the_templates_of_issues_have_what_github_reads() -> None:
    templates = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.md"))
    assert len(templates) == 2
    for path in templates:
        head = yaml.safe_load(path.read_text(encoding="utf-8").split("---")[1])
        assert head["name"] and head["about"]
    request = (ROOT / ".github" / "pull_request_template.md").read_text(encoding="utf-8")
    named = {word for line in re.findall(r"`make ([^`]+)`", request) for word in line.split()}
    assert named <= TARGETS
