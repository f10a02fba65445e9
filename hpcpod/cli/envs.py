"""The verb ``envs``: list the environments that this machine has, or try one."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import sys
import time
from argparse import Namespace
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from hpcpod import plugins
from hpcpod.cli.output import say, say_json, wrapped
from hpcpod.config.loader import from_mapping, from_words, load_file
from hpcpod.config.schema import RunConfig
from hpcpod.envs.listing import Backend, Family, Listing, list_envs
from hpcpod.pod.trial import supervisor
from hpcpod.run.tables import count

SIZES = (1, 16, 256)
"""Environments in the batches whose speed is measured."""

_SHOWN = 12
"""Bounds of one space that are shown, and places of each."""

_NAMES = {
    "classic_control": "classic control", "toy_text": "toy text", "mujoco": "MuJoCo",
    "box2d": "Box2D", "atari": "Atari", "phys2d": "JAX physics", "tabular": "JAX toy text",
}  # fmt: skip


def envs(options: Namespace) -> int:
    """``hpcpod envs``: every backend, what it steps, and what is missing for it."""
    found = list_envs()
    if options.json:
        say_json(dataclasses.asdict(found))
        return 0
    say(_place(found))
    for backend in found.backends:
        say()
        for line in _backend_lines(backend):
            say(line)
    say()
    say("try one: hpcpod envs check CartPole-v1")
    return 0


def _place(found: Listing) -> str:
    threads = f"{found.cpu_threads} CPU thread{'s' if found.cpu_threads > 1 else ''}"
    gpus = f"{len(found.gpus)} GPU{'s' if len(found.gpus) > 1 else ''}" if found.gpus else "no GPU"
    packages = ", ".join(f"{name} {version}" for name, version in found.versions.items() if version)
    blind = found.gpus and (found.versions.get("torch") or "").endswith("+cpu")
    note = "\nthis torch is a build for CPUs: it can't use the GPU" if blind else ""
    return f"here: {threads}, {gpus}; {packages}{note}"


def _backend_lines(backend: Backend) -> Iterable[str]:
    state = "usable" if backend.usable else f"not usable: {backend.why_not}; {backend.install}"
    of = "" if backend.source.startswith("hpcpod ") else f" ({backend.source})"
    yield f"{backend.name}{of}: {state}"
    yield from _row("steps", backend.steps)
    yield from _row("on", backend.device)
    if backend.ids:
        yield from _row("ids", " ".join(backend.ids))
    for family in backend.families:
        yield from _family_lines(family)


def _family_lines(family: Family) -> Iterable[str]:
    name = _NAMES.get(family.name, family.name)
    if family.missing:
        yield from _row(name, f"not installed: {', '.join(family.missing)}; {family.install}")
        name = ""
    yield from _row(name, " ".join(family.ids) or family.note)


def _row(title: str, text: str, width: int = 17) -> list[str]:
    return wrapped(text, f"  {title:<{width}}", width + 2)


def check(options: Namespace) -> int:
    """``hpcpod envs check``: make an environment, check its contract, measure its speed."""
    config = _config(options)
    sizes = [options.num_envs] if options.num_envs else _sizes(options, config)
    results: dict[str, Any] = {"backend": config.env.backend}
    patience = options.patience or config.env.trial_seconds
    with contextlib.closing(_Progress()) as progress:
        for kind, found in supervisor.check(
            config, options.device, sizes, steps=options.steps, seconds=options.seconds,
            patience=patience, hear=progress.hear,
        ):  # fmt: skip
            progress.clear()
            if kind == "Speed":
                results.setdefault("speed", []).append(found)
            else:
                results[kind.lower()] = found
            if not options.json:
                _SAY[kind](found)
    if options.json:
        say_json(results)
    return 0


def _sizes(options: Namespace, config: RunConfig) -> list[int]:
    """The usual ones, and a configuration's own; a process needs an environment at least."""
    own = [config.env.num_envs] if _is_file(options.env) else []
    return sorted({max(size, config.env.processes or 1) for size in (*SIZES, *own)})


def _is_file(word: str) -> bool:
    return word.endswith((".yaml", ".yml"))


def _config(options: Namespace) -> RunConfig:
    """The configuration file that was named, or a small one around the environment that was.

    Raises:
        ConfigError: says every problem.
    """
    named = ("backend", "num_envs", "processes", "python")
    given = {name: vars(options)[name] for name in named if vars(options)[name] is not None}
    if _is_file(options.env):
        config = load_file(options.env, options.overrides)
        plugins.look_in([str(Path(options.env).absolute().parent)])
        return from_mapping(config, {"env": given}, source=options.env)
    small = {"name": "check", "env": {"id": options.env, **given}}
    return from_words(small, options.overrides, source=options.env)


class _Progress:
    """Show on standard error what is being done.

    A terminal has one line, which the next one overwrites. A log gets a line after each ten
    seconds without one: what takes long is seen to go on, and a short trial leaves nothing there.
    """

    def __init__(self) -> None:
        self._terminal = sys.stderr.isatty()
        self._written = time.monotonic()

    def hear(self, text: str) -> None:
        """Say it, or leave it."""
        now = time.monotonic()
        if self._terminal:
            sys.stderr.write(f"\r\x1b[K{text} ...")  # ESC [ K: clear the line
        elif now - self._written >= supervisor.QUIET_SECONDS:
            self._written = now
            sys.stderr.write(f"{text} ...\n")
        sys.stderr.flush()

    def clear(self) -> None:
        """Make room for a result on a terminal."""
        if self._terminal:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()

    close = clear


def _say_about(found: Mapping[str, Any]) -> None:
    spec = found["spec"]
    say(f"{spec['id']}: N = {spec['num_envs']} on {spec['device']}")
    limit = spec["max_episode_steps"]
    rows = {
        "observation": _space(spec["observation"]),
        "action": _space(spec["action"]) + _stands_for(spec["action_bounds"]),
        "time limit": f"{limit} steps"
        if limit
        else "none that it tells of; env.max_episode_steps gives it one",
        "backend": found["backend"],
        "engine": spec["engine"],
        "stepped by": _steppers(found),
        "seeded": "yes: a seed decides its episode"
        if spec["seeded"]
        else "no: episodes differ each time, whatever the seeds",
        "final_obs": "yes: where an episode ends, the true successor is given"
        if spec["final_obs"]
        else "no: where an episode ends, the state that was acted on stands for its successor",
        "state": "can be saved: rounds go on in the same episodes, stopped or not"
        if found["saves_state"]
        else "can't be saved: each round begins new episodes, a stopped one from its start",
    }
    for name, words in rows.items():
        for line in _row(name, words, 13):
            say(line)


def _steppers(found: Mapping[str, Any]) -> str:
    threads, processes = found["threads"], found["processes"]
    if found["python"] is not None:
        return f"{processes} process{'es' if processes > 1 else ''} of {found['python']}"
    if processes > 1:
        return f"{processes} processes"
    return f"this process, with at most {threads} thread{'s' if threads > 1 else ''}"


def _space(space: Mapping[str, Any]) -> str:
    if space["kind"] == "Discrete":
        return f"one of {space['n']} choices"
    if space["kind"] == "MultiDiscrete":
        return f"{len(space['nvec'])} choices at once, of {', '.join(map(str, space['nvec']))}"
    what = "image, bytes" if space["dtype"] == "uint8" else "box of " + space["dtype"]
    return f"{what} {list(space['shape'])}, {_ranges(space['low'], space['high'])}"


def _stands_for(bounds: Any) -> str:
    return f", which stand for {_ranges(*bounds)}" if bounds is not None else ""


def _ranges(low: Any, high: Any) -> str:
    """Bounds, of which each is one number or one per element, and which elements have them."""
    # By the widest of its bounds CartPole was called unbounded.
    size = max(len(b) if isinstance(b, (list, tuple)) else 1 for b in (low, high))
    lows, highs = ([b] * size if isinstance(b, (int, float)) else b for b in (low, high))
    if not lows or not highs:
        return "empty"
    places: dict[str, list[int]] = {}
    for index, bounds in enumerate(zip(lows, highs, strict=True)):
        places.setdefault(_range(*bounds), []).append(index)
    if len(places) == 1:
        return next(iter(places))
    return _cut("; ", [f"{words} at {_indices(at)}" for words, at in places.items()])


def _indices(numbers: Sequence[int]) -> str:
    """Ascending numbers in few words: ``0, 4-7``."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and runs[-1][-1] + 1 == number:
            runs[-1].append(number)
        else:
            runs.append([number])
    return _cut(", ", [f"{r[0]}-{r[-1]}" if len(r) > 1 else str(r[0]) for r in runs])


def _cut(between: str, items: Sequence[str]) -> str:
    rest = len(items) - _SHOWN
    more = [f"{rest} more (--json has all)"] if rest > 0 else []
    return between.join([*items[:_SHOWN], *more])


def _range(low: float, high: float) -> str:
    if low == -math.inf and high == math.inf:
        return "unbounded"
    if high == math.inf:
        return f"at least {low + 0.0:.6g}"  # not -0
    return f"at most {high:.6g}" if low == -math.inf else f"{low + 0.0:.6g} to {high:.6g}"


def _say_contract(found: Mapping[str, Any]) -> None:
    ends = found["ends"]
    say(
        f"contract: kept in {found['steps']} random steps of N = {found['num_envs']}, "
        + (
            f"with {ends} end{'s' if ends > 1 else ''} of episodes"
            if ends
            else "in which no episode ended: what is promised of ends was not seen (--steps)"
        )
    )
    for said in found["strange"]:
        say(f"  but {said}")


def _say_speed(found: Mapping[str, Any]) -> None:
    size, speed = found["num_envs"], found["steps_per_second"]
    if speed is None:
        say(
            f"speed with N = {size}: not measured, for making them would take about"
            f" {found['make_seconds']:.0f} s (--num-envs {size} does it)"
        )
    else:
        made = f"made and reset in {found['make_seconds']:.2g} s"
        by = f" by {found['processes']} processes" if found["processes"] > 1 else ""
        say(f"speed with N = {size:>3}: {count(speed):>5} environment steps/s{by}, {made}")


_SAY = {"About": _say_about, "Contract": _say_contract, "Speed": _say_speed}
