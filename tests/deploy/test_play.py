"""Policies at play: their returns, a video that is decoded again, contact sheets, refusals."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import gymnasium as gym
import h5py
import numpy as np
import pytest

import hpcpod
from hpcpod._process import PYTHON
from hpcpod.cli.parser import main
from hpcpod.config.schema import EnvConfig
from hpcpod.deploy.environment_terms import portable
from hpcpod.deploy.episodes import Shown, play
from hpcpod.deploy.export import write_numpy
from hpcpod.deploy.film import SHEET_FRAMES, THUMB, Thinned, Video, write_sheet
from hpcpod.deploy.offscreen import choose_gl
from hpcpod.deploy.play import Played, played
from hpcpod.envs.make import make_env
from hpcpod.errors import EndlessEpisode, StorageError, UserError
from hpcpod.pod.factory import make_agent
from hpcpod.pod.policy import Policy, policy_meta
from tests.support.full_disk import room_for
from tests.support.small_runs import AGENTS


def untrained(task: EnvConfig, to: Path) -> Path:
    """The file of a policy that has learned nothing."""
    env = make_env(task.id)
    values = AGENTS["ppo"]
    policy = Policy(
        make_agent("ppo", env.spec, values, 0, "cpu"), env.spec,
        policy_meta(env.spec, task, "ppo", values),
    )  # fmt: skip
    env.close()
    policy.save(to)
    return to


@pytest.fixture(scope="module")
def cartpole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    task = EnvConfig("CartPole-v1", max_episode_steps=40)
    return untrained(task, tmp_path_factory.mktemp("policy") / "policy.h5")


def by_hand(path: Path, seed: int) -> tuple[float, int, str]:
    """Return, length and end of an episode in a loop of a user's own."""
    policy = hpcpod.load_policy(path)
    with gym.make("CartPole-v1", max_episode_steps=40) as env:
        obs, _ = env.reset(seed=seed)
        total, steps, over = 0.0, 0, False
        while not over:
            obs, reward, terminated, truncated, _ = env.step(policy(obs))
            total, steps, over = total + float(reward), steps + 1, terminated or truncated
    return total, steps, "terminated" if terminated else "truncated"


def test_a_recording_has_a_frame_of_each_step_and_of_the_end(
    cartpole: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    av = pytest.importorskip("av", reason="PyAV is not installed: pip install 'hpcpod[play]'")
    video, sheet = tmp_path / "video.mp4", tmp_path / "frames.png"
    words = ["play", str(cartpole.parent), "--episodes", "2", "--seed", "4"]
    assert main([*words, "--record", str(video), "--sheet", str(sheet)]) == 0
    said = capsys.readouterr().out
    played = [by_hand(cartpole, seed) for seed in (4, 5)]
    for seed, (total, count, ended) in zip((4, 5), played, strict=True):
        assert f"seed {seed}: return {total:.1f}, {count} steps, {ended}\n" in said
    steps, more = (count for _, count, _ in played)
    frames = steps + 1 + more + 1
    assert f"video: {video}, {frames} frames of 600x400, {frames / 50:.1f} s" in said
    with av.open(str(video)) as file:
        decoded = [frame.to_ndarray(format="rgb24") for frame in file.decode(video=0)]
        assert float(file.streams.video[0].average_rate) == 50.0
    assert len(decoded) == frames and {frame.shape for frame in decoded} == {(400, 600, 3)}
    start = np.abs(decoded[0].astype(int) - decoded[steps].astype(int))
    assert decoded[0].mean() > 200 and start.max() > 100  # a white ground; the pole has moved
    from PIL import Image

    with Image.open(sheet) as drawn:  # two rows of at most so many thumbs of 240 x 160
        columns = min(steps + 1, SHEET_FRAMES)
        assert drawn.width <= max(columns, min(more + 1, SHEET_FRAMES)) * (THUMB + 4) + 4
        assert drawn.height == 2 * (160 + 28 + 4)
    assert not [*tmp_path.glob(".*")]  # nothing half-written is left


def test_episodes_are_data_too(cartpole: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["play", str(cartpole), "--episodes", "1", "--seed", "4", "--json"]) == 0
    [episode] = json.loads(capsys.readouterr().out)["episodes"]
    said = tuple(episode[name] for name in ("episode_return", "steps", "ended"))
    assert said == by_hand(cartpole, 4) and episode["seed"] == 4


def test_an_exported_folder_plays_by_its_numpy_reader_and_a_damaged_one_is_refused(
    cartpole: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    policy = hpcpod.load_policy(cartpole)
    write_numpy(portable(policy), tmp_path)
    config = policy.about["env"]
    card = {"files": {"policy.h5": {}}, "environment": {"config": config}}
    (tmp_path / "card.json").write_text(json.dumps(card))
    played = []
    for source in (tmp_path, cartpole):
        assert main(["play", str(source), "--episodes", "2", "--json"]) == 0
        played.append(json.loads(capsys.readouterr().out)["episodes"])
    assert played[0] == played[1] and len(played[0]) == 2
    for wrong, sentence in (
        (
            {**card, "files": {"policy.h5": None}},
            "policy that can be read: 'inputs'",
        ),
        ({"files": []}, "is no exported policy that can be read"),
        ({**card, "environment": {"config": None}}, "does not say its environment"),
    ):
        (tmp_path / "card.json").write_text(json.dumps(wrong))
        assert main(["play", str(tmp_path)]) == 2
        assert sentence in capsys.readouterr().err


def test_an_exported_folder_that_does_not_fit_itself_is_one_sentence(
    cartpole: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    policy = hpcpod.load_policy(cartpole)
    config = {**policy.about["env"], "id": "MountainCar-v0"}
    card = {"files": {"policy.h5": {}}, "environment": {"config": config}}
    (tmp_path / "card.json").write_text(json.dumps(card))

    def refused() -> str:
        assert main(["play", str(tmp_path)]) == 2
        said = capsys.readouterr().err
        assert "Traceback" not in said
        return said

    write_numpy(portable(policy), tmp_path)  # of other observations
    assert f"{tmp_path} can't act in MountainCar-v0: ValueError: " in refused()
    card["environment"] = {"config": policy.about["env"]}
    (tmp_path / "card.json").write_text(json.dumps(card))
    with h5py.File(tmp_path / "policy.h5", "a") as file:  # weights of other shapes
        for name in list(file["arrays"]):
            del file["arrays"][name]
            file["arrays"][name] = np.zeros((7, 5), np.float32)
    assert f"{tmp_path} can't act in CartPole-v1: ValueError: " in refused()
    with h5py.File(tmp_path / "policy.h5", "a") as file:
        del file["arrays"]
        file["arrays"] = np.zeros(3)
    assert "is no exported policy that can be read" in refused()


def test_patience_begins_with_the_first_act(
    cartpole: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = hpcpod.load_policy(cartpole)
    monkeypatch.setattr("hpcpod.deploy.play.PATIENCE", -1.0)  # it is always over
    found = played(
        lambda inputs: np.zeros(len(inputs["observation"]), np.int64), policy.spec,
        EnvConfig("CartPole-v1"), 2, 8,
    )  # fmt: skip
    assert isinstance(found, Played) and found.returns == ()
    assert found.met["observation"].shape == (2, 4)  # of one act
    monkeypatch.undo()
    alone = played(
        lambda inputs: np.zeros(len(inputs["observation"]), np.int64), policy.spec,
        EnvConfig("CartPole-v1"), 2, 8, alone=-1.0,
    )  # fmt: skip
    assert isinstance(alone, Played) and alone.returns == ()


def test_what_takes_one_process_too_long_is_played_by_several(
    cartpole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries: list[int | None] = []

    def counted(act: Any, spec: Any, *, env: EnvConfig, **more: Any) -> Played | str:
        tries.append(env.processes)
        return played(act, spec, env, **more)

    monkeypatch.setattr("hpcpod.deploy.export.played", counted)
    for seconds, processes in ((5.0, [1]), (-1.0, [1, None])):
        monkeypatch.setattr("hpcpod.deploy.export.ALONE", seconds)
        tries.clear()
        card = hpcpod.export_policy(cartpole, tmp_path / str(seconds))
        assert tries == processes
        assert len(card["checks"]["played"]["returns"]) == 16


def test_what_can_t_be_shown_is_one_sentence(
    cartpole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setitem(sys.modules, "av", None)  # as if it were not installed
    for words, sentence in (
        (["--render"], "--render needs a screen"),
        (["--render", "--sheet", "a.png"], "leave one out"),
        (["--record", "a.gif"], "can't write a.gif: its name must end in .mp4"),
        (["--record", str(tmp_path / "none" / "a.mp4")], "there is no folder"),
        (["--record", str(tmp_path / "a.mp4")], "pip install 'hpcpod[play]'"),
        (["--pod", "p0001"], "is one policy"),
        (["--episodes", "0"], "expected a whole number, at least 1"),
    ):
        try:
            code = main(["play", str(cartpole), *words])
        except SystemExit as error:  # argparse's own
            code = int(error.code or 0)
        said = capsys.readouterr().err
        assert code == 2 and sentence in said and "Traceback" not in said, said


def test_an_environment_that_draws_nothing_is_one_sentence(tmp_path: Path) -> None:
    shown = Shown(sheet=tmp_path / "a.png")
    for task, sentence in (
        (EnvConfig("tests.deploy.test_play:Blind"), "gave NoneType, not"),
        (EnvConfig("tests.deploy.test_play:Unready"), "refused its arguments"),
        (EnvConfig("CartPole-v1", python="/usr/bin/python3"), "is of another Python"),
        (EnvConfig("NoSuchTask-v0"), "NoSuchTask-v0"),
    ):
        with pytest.raises(UserError, match=sentence):
            play(lambda obs: 0, task, episodes=1, seed=0, shown=shown)
    assert not (tmp_path / "a.png").exists()


class Unready(gym.Env[np.ndarray, Any]):
    """An environment whose episodes do not end, and that takes no render_mode."""

    observation_space = gym.spaces.Box(-1.0, 1.0, (1,))
    action_space = gym.spaces.Discrete(2)

    def reset(self, **given: object) -> tuple[np.ndarray, dict[str, object]]:
        return np.zeros(1, np.float32), {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict[str, object]]:
        return np.zeros(1, np.float32), 0.5, False, False, {}


class Blind(Unready):
    """The same, which takes one and draws nothing."""

    def __init__(self, render_mode: str | None = None) -> None:
        self.render_mode = render_mode

    def render(self) -> None:
        return None


def test_an_episode_without_an_end_ends_with_a_sentence() -> None:
    task = EnvConfig("tests.deploy.test_play:Unready", longest_episode=7)
    with pytest.raises(EndlessEpisode, match=r"has not ended in 7 steps"):
        play(lambda obs: 0, task, episodes=1, seed=0)
    limited = EnvConfig(task.id, longest_episode=7, max_episode_steps=5)
    [one] = play(lambda obs: 0, limited, episodes=1, seed=0).episodes
    assert (one.episode_return, one.steps, one.ended) == (2.5, 5, "truncated")


def test_a_video_that_fails_leaves_nothing_and_odd_frames_are_filled(tmp_path: Path) -> None:
    av = pytest.importorskip("av", reason="PyAV is not installed: pip install 'hpcpod[play]'")
    path, frame = tmp_path / "a.mp4", np.full((51, 71, 3), 200, np.uint8)
    with pytest.raises(KeyError), Video(path, 10.0) as video:
        video.add(frame)
        raise KeyError
    assert not [*tmp_path.iterdir()]
    with Video(path, 10.0) as video:
        video.add(frame)
        video.add(np.full((80, 60, 3), 200, np.uint8))
    assert (video.size, video.frames) == ((72, 52), 2)
    with av.open(str(path)) as file:
        assert [(f.width, f.height) for f in file.decode(video=0)] == [(72, 52)] * 2


def test_a_video_and_a_sheet_that_the_disk_has_no_room_for_are_a_sentence_each(
    tmp_path: Path,
) -> None:
    pytest.importorskip("av", reason="PyAV is not installed: pip install 'hpcpod[play]'")
    noise = np.random.default_rng(0).integers(0, 256, (64, 64, 3), np.uint8)
    with room_for(2_000):
        mp4 = pytest.raises(StorageError, match=r"can't write .*a\.mp4: ")
        with mp4, Video(tmp_path / "a.mp4", 10.0) as video:
            for _ in range(20):
                video.add(noise)
        with pytest.raises(StorageError, match=r"can't write .*a\.png: "):
            write_sheet(tmp_path / "a.png", [("one", [("0", noise)])])
    assert not [*tmp_path.iterdir()]


def test_a_sheet_s_frames_are_evenly_spread_from_the_first_to_the_end(tmp_path: Path) -> None:
    kept, frame = Thinned(4), np.zeros((2, 3, 3), np.uint8)
    taken = []
    for step in range(101):
        if kept.wants(step) or step == 100:
            taken.append(step)
            kept.add(str(step), frame, ends=step == 100)
    assert len(taken) < 30
    assert [title for title, _ in kept.shown()] == ["0", "32", "80", "100"]
    write_sheet(tmp_path / "a.png", [("one", kept.shown()), ("two", kept.shown()[:1])])
    assert [path.name for path in tmp_path.iterdir()] == ["a.png"]


def test_a_way_to_draw_that_is_not_there_is_named_with_its_package(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("MUJOCO_GL", "nosuch")
    monkeypatch.delitem(sys.modules, "mujoco", raising=False)
    with pytest.raises(UserError, match=r"by NOSUCH \(.*libegl1") as refused:
        choose_gl()
    assert "\n" not in str(refused.value)


def test_mujoco_draws_without_a_screen(tmp_path: Path) -> None:
    policy = untrained(EnvConfig("InvertedPendulum-v5"), tmp_path / "policy.h5")
    names = ("DISPLAY", "WAYLAND_DISPLAY", "MUJOCO_GL")
    environment = {name: value for name, value in os.environ.items() if name not in names}
    words = ["-m", "hpcpod", "play", policy.name, "--episodes", "1", "--sheet", "frames.png"]
    done = subprocess.run(
        [*PYTHON, *words], cwd=tmp_path, env=environment, text=True, capture_output=True,
        check=False,
    )  # fmt: skip
    if "MuJoCo can't draw on this machine" in done.stderr:
        required = os.environ.get("CI") or os.environ.get("HPCPOD_REQUIRE_ALL")
        (pytest.fail if required else pytest.skip)(done.stderr)
    assert done.returncode == 0, done.stderr
    from PIL import Image

    with Image.open(tmp_path / "frames.png") as drawn:
        shades = np.asarray(drawn)
    assert shades.shape[0] == THUMB + 28 + 4 and shades.std() > 20  # square frames, not empty
