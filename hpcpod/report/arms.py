"""Arms of a comparison: runs of one configuration, but for their names and seeds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Any

from hpcpod.config.loader import to_mapping
from hpcpod.report.plot import HUES
from hpcpod.report.story import Story

APART = ("name", "seed", "cluster", "resources")
"""Sections of a configuration that make no other arm: where it ran, and by which chance. Of a run
that ends by the clock, slots and resources do: it trains more with more of them."""


@dataclass(frozen=True)
class Arm:
    """Runs of one configuration."""

    name: str
    hue: str
    """The CSS class of its colour."""
    stories: tuple[Story, ...]

    @property
    def final(self) -> bool:
        """True if every run has finished with a score on fresh seeds: no score is a maximum, and
        none may change."""
        return all(
            s.board.phase == "finished" and s.best is not None and s.best.fresh
            for s in self.stories
        )

    @property
    def counted(self) -> list[Story]:
        """Its runs, of copies of one run the first alone: see ``copies``."""
        more = {id(story) for same in copies(self.stories) for story in same[1:]}
        return [story for story in self.stories if id(story) not in more]

    def scores(self, task: str) -> list[float]:
        """The scores on a task of its runs that have one, each run once."""
        return [s.best.mean for s in self.counted if task_of(s) == task and s.best is not None]


def task_of(story: Story) -> str:
    """The environment, by which runs are strata of an aggregate."""
    return story.config.env.id


def arms_of(stories: Sequence[Story]) -> list[Arm]:
    """The runs by configuration. Fields in which only tasks differ make no other arm.

    An arm has the name that its runs begin with (``gate`` of gate-1 and gate-2), if no other has.
    To the names of runs that have one name their folders are added.
    """
    often = Counter(story.name for story in stories)
    flat = [fields_of(story) for story in stories]
    differing = differences(stories)
    groups: dict[tuple[str, ...], list[Story]] = {}
    for story, each in zip(stories, flat, strict=True):
        groups.setdefault(tuple(each.get(key, "-") for key in differing), []).append(story)
    names = [_stem([story.name for story in members]) for members in groups.values()]
    arms = []
    for place, members in enumerate(groups.values()):
        name = names[place]
        if not name or names.count(name) > 1:
            one_task = len({task_of(story) for story in members}) == 1
            said = name or (members[0].name if one_task else "configuration")
            name = f"{said} ({_letters(place)})"
        told = tuple(
            replace(s, name=f"{s.name} ({s.folder})") if often[s.name] > 1 else s for s in members
        )
        arms.append(Arm(name, f"k{place % HUES}", told))
    return arms


def copies(stories: Sequence[Story]) -> list[list[Story]]:
    """The runs that have the same seed and began at the same time: copies of one, it seems."""
    groups: dict[tuple[str, int, float], list[Story]] = {}
    for story in stories:
        key = (task_of(story), story.config.seed, story.board.started)
        groups.setdefault(key, []).append(story)
    return [members for members in groups.values() if len(members) > 1]


def differences(stories: Sequence[Story]) -> list[str]:
    """The fields of the configuration in which runs of one task differ, by path."""
    found: set[str] = set()
    for task in {task_of(story) for story in stories}:
        flat = [fields_of(story) for story in stories if task_of(story) == task]
        names = {key for each in flat for key in each}
        found |= {key for key in names if len({each.get(key, "-") for each in flat}) > 1}
    return sorted(found)


def _letters(place: int) -> str:
    """A, B, ... Z, AA, AB and so on, for places from 0."""
    return (_letters(place // 26 - 1) if place >= 26 else "") + chr(65 + place % 26)


def _stem(names: Sequence[str]) -> str:
    """The common beginning of names, without a number or a hyphen at its end."""
    return _beginning(names).rstrip("0123456789").rstrip("-_. ")


def _beginning(names: Sequence[str]) -> str:
    """The characters that all names begin with."""
    same = takewhile(lambda letters: len(set(letters)) == 1, zip(*names, strict=False))
    return "".join(letters[0] for letters in same)


def fields_of(story: Story) -> dict[str, str]:
    """The configuration's fields by their paths, as texts, without ``APART``."""
    every = to_mapping(story.config)
    whole = {k: v for k, v in every.items() if k not in APART}
    if story.config.stop.minutes is not None:
        slots = every.get("cluster", {})
        whole["cluster"] = {name: slots.get(name) for name in ("slots", "schedule")}
        whole["resources"] = every.get("resources")
    found: dict[str, str] = {}

    def walk(data: Any, path: str) -> None:
        if isinstance(data, Mapping) and data:
            for key, value in data.items():
                walk(value, f"{path}.{key}" if path else str(key))
        else:
            found[path] = str(data)

    walk(whole, "")
    return found
