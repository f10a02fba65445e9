"""The folder of scores: who takes which episodes, and what stays of them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hpcpod.config.schema import EnvConfig
from hpcpod.deploy.score_folder import Chunk, Score, ScoreFolder, Work, chunks_of
from hpcpod.errors import StorageError, UserError

ENV = EnvConfig("CartPole-v1", kwargs={"sutton_barto_reward": True})
WORK = Work(tuple(chunks_of("0" * 64, ENV, range(100, 140))), ("/somewhere",))


@pytest.fixture
def folder(tmp_path: Path) -> ScoreFolder:
    folder = ScoreFolder(tmp_path / "scores")
    folder.create()
    folder.add_work(WORK)
    return folder


def test_episodes_are_cut_into_batches_of_sixteen_and_the_rest() -> None:
    assert [len(chunk.seeds) for chunk in WORK.chunks] == [16, 16, 8]
    assert [seed for chunk in WORK.chunks for seed in chunk.seeds] == list(range(100, 140))


def test_a_chunk_is_called_by_its_policy_its_environment_and_its_seeds() -> None:
    first = WORK.chunks[0]
    same = Chunk("0" * 64, EnvConfig("CartPole-v1", kwargs=ENV.kwargs), first.seeds)
    assert same.name == first.name
    others = [
        Chunk("1" * 64, ENV, first.seeds),
        Chunk("0" * 64, EnvConfig("CartPole-v1"), first.seeds),
        Chunk("0" * 64, ENV, first.seeds[:-1]),
    ]
    assert len({chunk.name for chunk in [first, *others]}) == 4


def test_work_is_read_as_it_was_written(folder: ScoreFolder) -> None:
    assert folder.work(WORK.name) == WORK


def test_no_two_processes_take_the_same_chunk(folder: ScoreFolder) -> None:
    one, other = folder.take(WORK, "one"), folder.take(WORK, "other")
    taken = [next(one).seeds[0], next(other).seeds[0], next(one).seeds[0]]
    assert taken == [100, 116, 132]
    assert next(other, None) is None


def test_a_process_that_comes_back_keeps_what_it_had_taken(folder: ScoreFolder) -> None:
    before = next(folder.take(WORK, "7_0"))
    assert next(folder.take(WORK, "7_0")) == before


def test_what_is_scored_is_taken_by_nobody_and_what_is_freed_by_anybody(
    folder: ScoreFolder,
) -> None:
    score = Score((1.0, 2.0), "an engine 1.0", True)
    folder.put(WORK.chunks[0], score)
    assert folder.score(WORK.chunks[0]) == score
    assert folder.scored() == {WORK.chunks[0].name}
    assert next(folder.take(WORK, "one")) == WORK.chunks[1]
    assert folder.claims(WORK, WORK.chunks) == [(WORK.chunks[1], "one")]
    folder.free(WORK, WORK.chunks[1])
    assert next(folder.take(WORK, "other")) == WORK.chunks[1]


def test_a_damaged_score_is_none_and_is_played_again(folder: ScoreFolder) -> None:
    folder.put(WORK.chunks[0], Score((1.0,), "an engine", True))
    [path] = (folder.path / "scores").iterdir()
    path.write_text('{"returns": [1.0')
    assert folder.score(WORK.chunks[0]) is None
    assert folder.scored() == set()


def test_a_refusal_holds_until_the_work_is_asked_for_again(folder: ScoreFolder) -> None:
    folder.refuse(WORK, WORK.chunks[1], "it has other spaces")
    assert folder.refusal(WORK) == (WORK.chunks[1], "it has other spaces")
    folder.add_work(WORK)
    assert folder.refusal(WORK) is None


@pytest.mark.parametrize("name", ["", "work"])
def test_a_folder_that_others_may_write_is_refused(folder: ScoreFolder, name: str) -> None:
    folder.create()  # it may be there
    (folder.path / name).chmod(0o770)
    with pytest.raises(UserError, match=r"can be written by others than you.*chmod -R go-w"):
        folder.create()


def test_a_folder_of_another_user_s_is_refused(folder: ScoreFolder) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give a folder to another user")
    os.chown(folder.path / "policies", 65521, 65500)
    with pytest.raises(UserError, match=r"policies belongs to user 65521, .* of your own"):
        folder.create()


def test_a_policy_that_is_another_than_its_name_says_is_written_again(folder: ScoreFolder) -> None:
    name = folder.add_policy(b"weights")
    folder.policy(name).write_bytes(b"planted")
    assert folder.add_policy(b"weights") == name
    assert folder.policy(name).read_bytes() == b"weights"


def test_what_the_filesystem_refuses_is_one_sentence(folder: ScoreFolder) -> None:
    for path in (folder.path / "scores", folder.path / "claims" / WORK.name):
        path.rmdir()
    with pytest.raises(StorageError, match=r"^can't list .*scores: "):
        folder.scored()
    with pytest.raises(StorageError, match=r"^can't list .*claims.*: "):
        folder.refusal(WORK)
    (folder.path / "claims" / WORK.name / WORK.chunks[0].name).mkdir(parents=True)
    with pytest.raises(StorageError, match=r"^can't remove .*claims.*: "):
        folder.free(WORK, WORK.chunks[0])


def test_a_policy_is_kept_once_under_its_checksum(folder: ScoreFolder) -> None:
    name = folder.add_policy(b"weights")
    assert folder.add_policy(b"weights") == name
    assert folder.policy(name).read_bytes() == b"weights"
