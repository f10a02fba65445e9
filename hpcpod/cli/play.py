"""The verb ``play``: a policy in its environment, with its returns, a video, a contact sheet."""

from __future__ import annotations

import json
import os
from argparse import Namespace
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from hpcpod import plugins
from hpcpod.cli.arguments import arg, count, flag, seed
from hpcpod.cli.output import say, say_json
from hpcpod.config.resolved import code_in
from hpcpod.config.schema import EnvConfig
from hpcpod.errors import UserError, in_words
from hpcpod.records.records import decode, encode
from hpcpod.run.run import open_run
from hpcpod.run.tables import interval, number
from hpcpod.run.text import many

PLAY = (
    arg("run", metavar="SOURCE",
        help="a run's folder or name, a policy's .h5, or a folder that export or replay has made"),
    arg("--pod", metavar="POD",
        help="of a run, this pod's policy (default: the winner's, or the leader's so far)"),
    arg("--episodes", type=count, default=3, metavar="N", help="episodes to play (3)"),
    arg("--seed", type=seed, default=0, metavar="N",
        help="seed of the first episode; the next ones have N+1, N+2 ... (0)"),
    arg("--record", type=Path, metavar="FILE", help="write a video, such as video.mp4"),
    arg("--sheet", type=Path, metavar="FILE",
        help="write a contact sheet of frames, such as frames.png"),
    flag("--render", "show it in a window on this screen"),
)  # fmt: skip
"""Its arguments."""

_UNREADABLE = (OSError, ValueError, LookupError, TypeError, AttributeError, RuntimeError)
"""Errors of reading a damaged folder; nested too deeply is a RuntimeError, too."""


def play(options: Namespace) -> int:
    """``hpcpod play``: some episodes of a policy."""
    from hpcpod.deploy.episodes import Episode, Shown
    from hpcpod.deploy.episodes import play as play_episodes
    from hpcpod.tournament.statistics import interval as bounds
    from hpcpod.tournament.statistics import mean

    shown = Shown(options.record, options.sheet, options.render)
    shown.check(overwrite=options.overwrite)
    act, task = _policy(options.run, options.pod)

    def tell(each: Episode) -> None:
        if not options.json:
            said = f"return {number(each.episode_return)}, {many(each.steps, 'step')}"
            say(f"seed {each.seed}: {said}, {each.ended}")

    done = play_episodes(
        act, task, episodes=options.episodes, seed=options.seed, shown=shown, tell=tell
    )
    if options.json:
        say_json(encode(done))
        return 0
    returns = [each.episode_return for each in done.episodes]
    if len(returns) > 1:
        say(f"mean {interval(mean(returns), *bounds(returns))}, {many(len(returns), 'episode')}")
    if options.record is not None:
        seconds, (width, height) = done.frames / done.fps, done.size
        say(f"video: {options.record}, {done.frames} frames of {width}x{height}, {seconds:.1f} s")
    if options.sheet is not None:
        say(f"contact sheet: {options.sheet}")
    return 0


def _policy(source: str, pod: str | None) -> tuple[Callable[[Any], Any], EnvConfig]:
    """A policy as a function, and its environment.

    Raises:
        UserError: there is none, or it is another user's, of an environment of theirs.
    """
    from hpcpod import api

    path = Path(source)
    if path.is_dir() and not (path / "config.json").exists():
        if (path / "card.json").is_file():
            return _exported(path, pod)
        path = path / "policy.h5"  # of a replay
    if path.is_file():
        policy = api.load_policy(path, pod=pod)
        return policy, _task_of(path, path.stat().st_uid, policy.about)
    run = open_run(source)
    resolved = run.folder.resolved
    run.folder.owner.require_code(resolved.own_code(), "play")
    return api.load_policy(run, pod=pod), resolved.config.env


def _exported(folder: Path, pod: str | None) -> tuple[Callable[[Any], Any], EnvConfig]:
    """The policy of a folder that ``hpcpod export`` has made, by its NumPy reader; ours, for the
    one that lies there may be another user's. By ONNX Runtime where it has no such file."""
    if pod is not None:
        raise UserError(f"{folder} is one policy: --pod is of a run")
    try:
        with (folder / "card.json").open("rb") as file:
            uid, card = os.fstat(file.fileno()).st_uid, json.load(file)
        policy = _read(folder, card)
        task = _task_of(folder, uid, {"env": card["environment"]["config"]})
    except _UNREADABLE as error:
        raise UserError(f"{folder} is no exported policy that can be read: {error}") from error

    def act(observation: Any) -> Any:
        try:
            return policy(observation)
        except Exception as error:  # its weights have whatever shapes the file says
            said = (
                f"{folder} can't act in {task.id}: {in_words(error)}; it is damaged, or of another"
            )
            raise UserError(f"{said} task: export it again") from error

    return act, task


def _read(folder: Path, card: Mapping[str, Any]) -> Callable[[Any], Any]:
    if card["files"]["policy.h5"] is None:
        from hpcpod.deploy.onnx_player import OnnxPlayer

        return OnnxPlayer(folder / "policy.onnx", card["inputs"])
    from hpcpod.deploy.numpy_policy import Policy

    return Policy(folder / "policy.h5")


def _task_of(source: Path, uid: int, about: Mapping[str, Any]) -> EnvConfig:
    """The environment that a policy's file names; ``uid`` is the file's.

    Raises:
        UserError: it names none that this hpcpod reads, or code of another user's.
    """
    try:
        task: EnvConfig = decode(EnvConfig, about["env"])
    except (KeyError, TypeError) as error:
        said = "does not say its environment as this hpcpod reads it"
        raise UserError(f"{source} {said}: play it by hpcpod.load_policy in a loop") from error
    named = code_in({"env": encode(task)})
    if named and uid not in (os.geteuid(), 0):
        raise UserError(
            f"{source} is another user's, and playing it imports {', '.join(named)}: copy it if you"
            " trust that"
        )
    if named:
        plugins.look_in([str(Path.cwd())])
    return task
