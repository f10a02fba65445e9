"""A policy at play in its own environment: returns, and pictures of what it does."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.envs.registration import load_env_creator

from hpcpod.config.schema import EnvConfig
from hpcpod.deploy.film import SHEET_EPISODES, Frame, Thinned, Video, write_sheet
from hpcpod.deploy.offscreen import choose_gl, without_screen
from hpcpod.envs.gymnasium_make import build
from hpcpod.envs.make import reference
from hpcpod.errors import EndlessEpisode, UserError, in_words
from hpcpod.storage.disk import check_writable

FPS = 30.0
"""Frames a second of an environment that doesn't say its own."""

Act = Callable[[Any], Any]
"""A policy: from one observation of the environment's own to one action for its ``step``."""


@dataclass(frozen=True)
class Shown:
    """The pictures that are asked for."""

    record: Path | None = None
    """A video, ``.mp4``."""
    sheet: Path | None = None
    """A contact sheet, ``.png``."""
    window: bool = False
    """A window on this machine's screen."""

    @property
    def frames(self) -> bool:
        """True if frames are needed."""
        return self.record is not None or self.sheet is not None

    def check(self, *, overwrite: bool) -> None:
        """See that it can be had, before anything is played.

        Raises:
            UserError: it can't.
        """
        if self.window and self.frames:
            raise UserError("--render shows a window, which can't be recorded: leave one out")
        if self.window and not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
            raise UserError(
                "--render needs a screen, and there is none ($DISPLAY is not set): --record"
                " video.mp4 or --sheet frames.png draw without one"
            )
        for path, ending in ((self.record, ".mp4"), (self.sheet, ".png")):
            if path is not None:
                if path.suffix.lower() != ending:
                    raise UserError(f"can't write {path}: its name must end in {ending}")
                check_writable(path, overwrite=overwrite)


@dataclass(frozen=True)
class Episode:
    """One episode that was played."""

    seed: int
    """With which the environment was reset."""
    episode_return: float
    """The sum of its rewards."""
    steps: int
    """Its length."""
    ended: str
    """``terminated`` by the task, or ``truncated`` by a time limit."""


@dataclass(frozen=True)
class Played:
    """Episodes that were played, and the video of them."""

    episodes: tuple[Episode, ...]
    frames: int = 0
    """Frames of the video; 0 without one."""
    size: tuple[int, int] = (0, 0)
    """Width and height of the video, in pixels."""
    fps: float = FPS
    """Frames a second of the video."""


def play(
    act: Act, task: EnvConfig, *, episodes: int, seed: int, shown: Shown | None = None,
    tell: Callable[[Episode], object] = lambda episode: None,
) -> Played:  # fmt: skip
    """Play episodes one after another, in gymnasium's own environment of a task.

    Args:
        act: the policy.
        task: its environment, as a configuration has it; its backend does not count.
        episodes: how many; the k-th, from 0, is reset with ``seed`` + k.
        seed: of the first.
        shown: pictures to make; None: none.
        tell: called after each episode.

    Raises:
        UserError: the environment can't be made here, or can't be drawn.
        EndlessEpisode: an episode goes on for longer than ``env.longest_episode`` allows.
    """
    shown = shown or Shown()
    with ExitStack() as stack:
        env = stack.enter_context(_made(task, shown))
        fps = float(env.metadata.get("render_fps") or FPS)
        if shown.frames:  # before anything is played: it may be unable to
            env.reset(seed=seed)
            _frame(env, task.id)
        video = None if shown.record is None else stack.enter_context(Video(shown.record, fps))
        done: list[Episode] = []
        rows: list[tuple[str, list[tuple[str, Frame]]]] = []
        for number in range(episodes):
            kept = None if shown.sheet is None or number >= SHEET_EPISODES else Thinned()
            episode = _episode(env, act, task, seed + number, video, kept)
            done.append(episode)
            if kept is not None:
                title = f"seed {episode.seed}: return {episode.episode_return:.6g}"
                rows.append((title, kept.shown()))
            tell(episode)
        if shown.sheet is not None:
            write_sheet(shown.sheet, rows)
    counted = (0, (0, 0)) if video is None else (video.frames, video.size)
    return Played(tuple(done), *counted, fps)


@contextmanager
def _made(task: EnvConfig, shown: Shown) -> Iterator[gym.Env[Any, Any]]:
    """The environment, which is closed at the end."""
    if task.python is not None:
        raise UserError(
            f"{task.id} is of another Python ({task.python}), in which hpcpod can't play it: load"
            " the policy there, by hpcpod.load_policy"
        )
    own = reference(task) or task
    kwargs, limit = dict(own.kwargs), own.max_episode_steps
    if shown.frames:
        without_screen()
        if _by_mujoco(own.id):
            choose_gl()
    wrappers = list(own.wrappers)
    if limit is not None:
        wrappers.append({"gymnasium.wrappers:TimeLimit": {"max_episode_steps": limit}})
    mode = "human" if shown.window else "rgb_array" if shown.frames else None
    if mode is not None:
        _check_mode(own.id, mode)
        kwargs["render_mode"] = mode
    with closing(build(own.id, 1, wrappers, kwargs)[0]) as env:
        yield env


def _by_mujoco(name: str) -> bool:
    """True if an environment may draw by MuJoCo; of a class, whose module may be anything, too."""
    spec = gym.registry.get(name)
    return spec is None or "mujoco" in str(spec.entry_point)


def _check_mode(name: str, mode: str) -> None:
    """See that an environment draws so, as far as its class says before it is made.

    Raises:
        UserError: it does not.
    """
    spec = gym.registry.get(name)
    if spec is None or spec.entry_point is None:
        return
    entry, refused = spec.entry_point, ""
    with suppress(Exception):  # to make it says what is wrong
        made_by: Any = load_env_creator(entry) if isinstance(entry, str) else entry
        modes = getattr(made_by, "metadata", {}).get("render_modes")
        if modes is not None and mode not in modes:
            has = f"only as {', '.join(map(str, modes))}" if modes else "in no way"
            refused = f"{name} can't be drawn as {mode}: its class says {has}"
    if refused:
        raise UserError(refused)


def _episode(
    env: gym.Env[Any, Any], act: Act, task: EnvConfig, seed: int,
    video: Video | None, kept: Thinned | None,
) -> Episode:  # fmt: skip
    total, steps, ended = 0.0, 0, ""
    observation, _ = env.reset(seed=seed)
    while True:
        wanted = kept is not None and (bool(ended) or kept.wants(steps))
        if video is not None or wanted:
            frame = _frame(env, task.id)
            if video is not None:
                video.add(frame)
            if kept is not None and wanted:
                title = f"step {steps}, return {total:.6g}"
                kept.add(title, frame, ends=bool(ended))
        if ended:
            return Episode(seed, total, steps, ended)
        if steps >= task.longest_episode:
            raise EndlessEpisode(
                f"an episode of {task.id} has not ended in {steps} steps: give it a time limit,"
                " env: {max_episode_steps: 1000}"
            )
        observation, reward, terminated, truncated, _ = env.step(act(observation))
        total, steps = total + float(reward), steps + 1
        ended = "terminated" if terminated else "truncated" if truncated else ""


def _frame(env: gym.Env[Any, Any], name: str) -> Frame:
    """The picture of an environment as it stands.

    Raises:
        UserError: it gives none.
    """
    try:
        drawn: Any = env.render()
    except (MemoryError, UserError):
        raise
    except (Exception, SystemExit) as error:  # an environment may raise whatever it likes
        raise UserError(f"{name} can't be drawn: {in_words(error)}") from error
    if isinstance(drawn, np.ndarray) and drawn.ndim == 3 and drawn.shape[2] == 3 and drawn.size:
        return np.asarray(drawn, np.uint8)
    gave = f"an array {drawn.shape}" if isinstance(drawn, np.ndarray) else type(drawn).__name__
    raise UserError(f"{name} can't be drawn: its render() gave {gave}, not [height, width, 3]")
