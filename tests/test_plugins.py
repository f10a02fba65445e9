from __future__ import annotations

import importlib.metadata
import math
from importlib.metadata import EntryPoint, EntryPoints

import pytest

from hpcpod import plugins
from hpcpod.errors import UnknownPlugin


@pytest.fixture(autouse=True)
def _entry_points(monkeypatch: pytest.MonkeyPatch) -> None:
    """An installation with two generators, one of which is broken."""
    points = EntryPoints(
        [
            EntryPoint("square_root", "math:sqrt", "hpcpod.generators"),
            EntryPoint("broken", "hpcpod.nowhere:Broken", "hpcpod.generators"),
        ]
    )
    monkeypatch.setattr(plugins, "entry_points", lambda group: points.select(group=group))


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


def test_the_nearest_name_is_suggested_and_none_if_none_is_near() -> None:
    assert plugins.suggest("tournment", ["tournament", "x"]) == "; did you mean 'tournament'?"
    assert plugins.suggest("zzz", ["tournament", "x"]) == ""
