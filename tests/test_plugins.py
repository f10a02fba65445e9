"""Plugins found by name or by path, and the refusals."""

from __future__ import annotations

import ast
import gc
import importlib.metadata
import math
import re
import sys
from collections.abc import Iterator
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path
from typing import Protocol

import pytest

import hpcpod
from hpcpod import plugins
from hpcpod.errors import UnknownPlugin, UnsupportedSpace, UnusablePlugin


@pytest.fixture(autouse=True)
def _entry_points(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An installation with two generators, one of which is broken."""
    points = EntryPoints(
        [
            EntryPoint("square_root", "math:sqrt", "hpcpod.generators"),
            EntryPoint("broken", "hpcpod.nowhere:Broken", "hpcpod.generators"),
        ]
    )
    monkeypatch.setattr(plugins, "entry_points", lambda group: points.select(group=group))
    plugins._paths_of.cache_clear()
    yield
    plugins._paths_of.cache_clear()


def test_a_package_that_was_installed_meanwhile_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    assert plugins.known("updaters") == []
    later = EntryPoints([EntryPoint("cube_root", "math:cbrt", "hpcpod.updaters")])
    monkeypatch.setattr(plugins, "entry_points", lambda group: later.select(group=group))
    plugins.find("updaters", "cube_root")
    assert plugins.known("updaters") == ["cube_root"]


def test_of_two_packages_that_give_a_name_the_first_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    two = EntryPoints([EntryPoint("root", f"math:{n}", "hpcpod.agents") for n in ("sqrt", "cbrt")])
    monkeypatch.setattr(plugins, "entry_points", lambda group: two.select(group=group))
    assert plugins.resolve("agents", "root") is math.sqrt


def test_a_name_is_found_in_its_group() -> None:
    assert plugins.resolve("generators", "square_root") is math.sqrt


def test_the_names_of_a_group_are_sorted() -> None:
    assert plugins.known("generators") == ["broken", "square_root"]
    assert plugins.known("agents") == []


def test_a_path_needs_no_entry_point() -> None:
    assert plugins.resolve("generators", "math:sqrt") is math.sqrt


def test_a_path_may_lead_to_an_attribute_of_an_attribute() -> None:
    found = plugins.resolve("agents", "importlib.metadata:EntryPoint.load")
    assert found is importlib.metadata.EntryPoint.load


@pytest.mark.parametrize(
    ("group", "name", "message"),
    [
        (
            "generators",
            "sqare_root",
            "unknown generator 'sqare_root'; did you mean 'square_root'?"
            " (known: broken, square_root; or a path 'pkg.mod:Attr')",
        ),
        ("agents", "ppo", "unknown agent 'ppo' (known: none; or a path 'pkg.mod:Attr')"),
        (
            "generators",
            "broken",
            "'hpcpod.nowhere:Broken' can't be imported: No module named 'hpcpod.nowhere'",
        ),
        ("agents", "nowhere:X", "'nowhere:X' can't be imported: No module named 'nowhere'"),
        ("agents", "math:sqroot", "'math:sqroot': module math has no 'sqroot'"),
    ],
)
def test_what_can_not_be_found_is_one_sentence(group: str, name: str, message: str) -> None:
    with pytest.raises(UnknownPlugin) as caught:
        plugins.resolve(group, name)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    "path",
    ["math:", "math:.sqrt", " : ", ":sqrt", "..x:y"],
)
def test_a_malformed_path_is_a_user_error_never_a_traceback(path: str) -> None:
    with pytest.raises(UnknownPlugin):
        plugins.resolve("agents", path)


class Root(Protocol):
    """What a square root must have."""

    def is_integer(self) -> bool: ...


class Part(Protocol):
    """What no number has."""

    def judge(self) -> bool: ...

    def report(self) -> bool: ...


def test_a_part_is_made_of_what_is_behind_its_name() -> None:
    assert plugins.make(Root, "generators", "square_root", 9) == 3.0


def test_a_part_s_own_refusals_pass() -> None:
    with pytest.raises(UnsupportedSpace, match="no images"):
        plugins.make(Part, "agents", "tests.test_plugins:refuse")


def refuse() -> None:
    raise UnsupportedSpace("no images")


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("math:pi", (), "math:pi is of type float, not a class or function"),
        ("square_root", ("x",), "square_root can't be made: TypeError: must be real number,"),
        ("square_root", (-1,), "square_root can't be made: ValueError: "),
        ("sys:exit", (), "sys:exit can't be made: SystemExit"),
        (
            "square_root",
            (9,),
            "square_root gives something of type float, which is no Part: it lacks judge, report",
        ),
    ],
)
def test_what_will_not_do_as_a_part_is_one_sentence(
    name: str, arguments: tuple[object, ...], message: str
) -> None:
    with pytest.raises(UnusablePlugin) as caught:
        plugins.make(Part, "generators", name, *arguments)
    assert str(caught.value).startswith(message)


def test_a_script_that_ends_python_when_imported_is_no_plugin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "ends_python.py").write_text("raise SystemExit(3)\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(UnknownPlugin, match="can't be imported: SystemExit: 3"):
        plugins.load("ends_python:X")


def test_a_folder_that_was_looked_in_is_one_of_the_module_folders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(plugins, "_LOOKED_IN", [])
    plugins.look_in([str(tmp_path), str(tmp_path)])
    assert sys.path[-1] == str(tmp_path)
    folders = plugins.module_folders()
    assert (folders[0], folders.count(str(tmp_path))) == (str(Path.cwd()), 1)


def test_what_comes_with_torch_is_hidden_from_the_garbage_collector_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "brings_torch.py").write_text("import sys\nsys.modules['torch'] = sys\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(sys.modules, "torch", sys)  # as it was, afterwards
    hidden: list[bool] = []
    monkeypatch.setattr(gc, "freeze", lambda: hidden.append(gc.isenabled()))
    plugins.load_early("brings_torch:sys")  # it is here already, and with it other things
    assert hidden == []
    del sys.modules["torch"], sys.modules["brings_torch"]
    plugins.load_early("no_such_module:sys")
    assert hidden == []
    plugins.load_early("brings_torch:sys")
    plugins.import_torch()
    assert hidden == [False]
    assert gc.isenabled()


def test_the_nearest_name_is_suggested_and_none_if_none_is_near() -> None:
    assert plugins.suggest("tournment", ["tournament", "x"]) == "; did you mean 'tournament'?"
    assert plugins.suggest("zzz", ["tournament", "x"]) == ""
    assert plugins.suggest("nosuch.yaml", ["b6.yaml"]) != ""
    assert plugins.suggest("nosuch.yaml", ["b6.yaml"], likeness=0.85) == ""


@pytest.mark.long
def test_only_what_a_user_names_is_loaded_by_a_path() -> None:
    """Of hpcpod's own code a path in quotes hides the import from mypy and import-linter."""
    found = []
    for path in Path(hpcpod.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Call):
                continue
            called = ast.unparse(node.func)
            texts = [str(arg.value) for arg in node.args if isinstance(arg, ast.Constant)]
            ours = any(re.fullmatch(r"hpcpod[.\w]*:[.\w]+", text) for text in texts)
            if ours or (called.startswith("plugins.load") and texts):
                found.append(f"{path}:{node.lineno}: {called}({', '.join(texts)})")
    assert found == []


@pytest.mark.parametrize("path", ["hpcpod.agents.dnq:DQN", "hpcpod.agents.dqn:PPO"])
def test_a_path_of_ours_with_a_typo_has_no_hyperparameters(path: str) -> None:
    with pytest.raises(UnknownPlugin):
        plugins.config_of(path)
