"""Buffers: true successors, no seam, segments that bring everything back."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch
from torch import Tensor

from hpcpod.agents.base import Buffer
from hpcpod.agents.replay import ReplayBuffer
from hpcpod.agents.rollout import RolloutBuffer
from hpcpod.agents.segments import cut_off, newest, segment_of
from hpcpod.envs.vec_env import Box, State, Step
from tests.agents.training import row, spec

FLAGS: dict[int, dict[str, list[bool]]] = {
    3: {"truncated": [True, False]},
    5: {"terminated": [False, True]},
    8: {"truncated": [True, True]},
    9: {"valid": [True, False]},
    13: {"truncated": [False, True]},
    14: {"truncated": [True, True]},
    15: {"truncated": [True, True]},
}


def fill(buffer: Buffer, start: int, stop: int) -> None:
    for t in range(start, stop):
        buffer.add(*row(t, **FLAGS.get(t, {})))


def ring(rows: int, capacity: int = 8) -> ReplayBuffer:
    buffer = ReplayBuffer(spec(), capacity * 2)
    fill(buffer, 0, rows)
    return buffer


def sample_all(buffer: ReplayBuffer, seed: int = 0) -> State:
    return buffer.sample(2000, torch.Generator().manual_seed(seed), gamma=0.5)


def assert_same(a: State, b: State) -> None:
    assert a.keys() == b.keys()
    for name in a:
        assert torch.equal(a[name], b[name]), name


def same_where_it_means_something(a: State, b: State) -> None:
    alive = a["discount"] > 0
    assert_same({**a, "next_obs": a["next_obs"][alive]}, {**b, "next_obs": b["next_obs"][alive]})


@pytest.mark.parametrize("rows", range(1, 40))
def test_no_sample_crosses_the_seam_or_is_invalid_or_has_a_false_successor(rows: int) -> None:
    buffer = ring(rows)
    batch = sample_all(buffer)
    time, env = batch["reward"] % 100, (batch["reward"] / 100).floor()
    assert set(time.tolist()) <= set(range(max(0, rows - 8), rows))
    assert buffer.oldest == max(0, rows - 8)
    for t, i, after, end in zip(
        time.tolist(), env.int().tolist(), batch["next_obs"], batch["discount"] == 0, strict=True
    ):
        flags = FLAGS.get(int(t), {})
        assert flags.get("valid", [True, True])[i]
        assert bool(end) == flags.get("terminated", [False, False])[i]
        cut = flags.get("truncated", [False, False])[i]
        if not end:
            assert after.tolist() == [100 * i + t + (0.5 if cut else 1.0)] * 3


def test_every_valid_row_is_sampled_the_newest_too() -> None:
    batch = sample_all(ring(20))
    everything = {float(100 * i + t) for t in range(12, 20) for i in (0, 1)}
    assert set(batch["reward"].tolist()) == everything


def test_the_same_generator_draws_the_same_batch() -> None:
    assert_same(sample_all(ring(30), seed=3), sample_all(ring(30), seed=3))


@pytest.mark.parametrize("cuts", [(), (13,), (13, 14), (12, 16, 19)])
def test_a_ring_restored_from_segments_is_the_same_ring(cuts: tuple[int, ...]) -> None:
    buffer = ring(20)
    borders = [buffer.oldest, *[c for c in cuts if c > buffer.oldest], buffer.rows]
    segments = [(a, buffer.segment(a, b)) for a, b in pairwise(borders)]
    other = ReplayBuffer(spec(), 16)
    fill(other, 0, 3)  # what was there before is gone
    other.restore(20, segments)
    for _ in range(12):  # and goes on alike, across the seam
        assert (other.rows, other.oldest) == (buffer.rows, buffer.oldest)
        same_where_it_means_something(sample_all(buffer), sample_all(other))
        window = (buffer.oldest, buffer.rows)
        assert_same(buffer.segment(*window), other.segment(*window))
        fill(buffer, buffer.rows, buffer.rows + 1)
        fill(other, other.rows, other.rows + 1)


def test_a_restored_ring_still_knows_its_invalid_rows() -> None:
    buffer, other = ring(12), ReplayBuffer(spec(), 16)
    other.restore(12, [(4, buffer.segment(4, 12))])
    same_where_it_means_something(sample_all(buffer), sample_all(other))
    assert 109.0 not in sample_all(other)["reward"].tolist()  # row 9 of environment 1


def test_a_segment_is_the_same_whenever_it_is_taken() -> None:
    buffer = ring(0, capacity=30)
    early = []
    for t in range(0, 20, 4):
        fill(buffer, t, t + 4)
        early.append(buffer.segment(t, t + 4))
    for t, segment in zip(range(0, 20, 4), early, strict=True):
        assert_same(segment, buffer.segment(t, t + 4))


def test_segments_taken_round_by_round_restore_what_is_still_alive() -> None:
    buffer, segments = ring(0), []
    for t in range(0, 21, 3):
        fill(buffer, t, t + 3)
        segments.append((t, buffer.segment(t, t + 3)))
    other = ReplayBuffer(spec(), 16)
    other.restore(21, segments)
    assert (other.rows, other.oldest) == (21, 13)
    same_where_it_means_something(sample_all(buffer), sample_all(other))
    shorter = ReplayBuffer(spec(), 8)  # a child may hold less
    shorter.restore(21, segments)
    assert shorter.oldest == 17
    assert_same(shorter.segment(17, 21), buffer.segment(17, 21))


def test_a_capped_inheritance_begins_later() -> None:
    other = ReplayBuffer(spec(), 16)
    other.restore(20, [(17, ring(20).segment(17, 20))])
    assert (other.rows, other.oldest) == (20, 17)
    assert sample_all(other)["reward"].remainder(100).min() == 17


def test_segments_with_a_gap_are_refused() -> None:
    buffer = ring(20)
    with pytest.raises(ValueError, match="begins at row 18, but row 16 is next"):
        buffer.restore(20, [(14, buffer.segment(14, 16)), (18, buffer.segment(18, 20))])
    with pytest.raises(ValueError, match="end at row 16, but the buffer counted 20"):
        buffer.restore(20, [(14, buffer.segment(14, 16))])
    with pytest.raises(IndexError, match="rows 2 to 5 were asked for, but 12 to 20 are here"):
        buffer.segment(2, 5)


def test_truncations_in_every_step_fit() -> None:
    buffer = ReplayBuffer(spec(num_envs=2), 20)
    for t in range(60):
        buffer.add(*row(t, truncated=[True, t % 3 == 0]))
        batch = sample_all(buffer)
        time = batch["reward"] % 100
        half = (batch["reward"] < 100) | (time % 3 == 0)
        expected = batch["reward"] + torch.where(half, 0.5, 1.0)
        assert torch.equal(batch["next_obs"][:, 0], expected)


def test_an_empty_ring_is_refused() -> None:
    buffer = ring(0)
    with pytest.raises(IndexError, match="empty"):
        sample_all(buffer)
    obs, action, step = row(0, valid=[False, False])
    buffer.add(obs, action, step)
    with pytest.raises(IndexError, match="no valid transition"):
        sample_all(buffer)


def test_images_stay_bytes_in_the_ring() -> None:
    buffer = ReplayBuffer(spec(observation=Box((1, 2, 2), 0.0, 255.0, "uint8")), 8)
    obs: Tensor = torch.full((2, 1, 2, 2), 7, dtype=torch.uint8)
    no = torch.zeros(2, dtype=torch.bool)
    buffer.add(obs, torch.zeros(2).long(), Step(obs, torch.zeros(2), no, no, obs + 1, ~no))
    batch = sample_all(buffer)
    assert batch["obs"].dtype == torch.uint8
    assert batch["next_obs"].unique().tolist() == [8]  # type: ignore[no-untyped-call]


def test_a_rollout_gives_its_rows_and_forgets_them() -> None:
    buffer = RolloutBuffer()
    fill(buffer, 0, 10)
    segment = buffer.segment(0, 10)
    assert_same(segment, ring(10, capacity=10).segment(0, 10))
    # Valid truncations, in order of rows, then environments: row 3 env 0, row 8 both.
    assert segment["final_obs"][:, 0].tolist() == [3.5, 8.5, 108.5]
    buffer.restore(buffer.rows, ())
    assert (buffer.rows, buffer.oldest) == (10, 10)
    buffer.restore(10, [(0, segment)])
    assert_same(segment, buffer.segment(0, 10))


def test_several_steps_by_hand() -> None:
    # Rows 0 to 4 of two environments; the reward of row t is t and 100 + t, γ is 0.5.
    buffer = ring(0, capacity=30)
    for t in range(5):
        flags = {1: {"truncated": [True, False]}, 2: {"terminated": [False, True]}}.get(t, {})
        buffer.add(*row(t, **flags))
    batch = buffer.sample(2000, torch.Generator().manual_seed(0), gamma=0.5, steps=3)
    found = {
        obs: (reward, after, discount)
        for obs, reward, after, discount in zip(
            batch["obs"][:, 0].tolist(),
            batch["reward"].tolist(),
            batch["next_obs"][:, 0].tolist(),
            batch["discount"].tolist(),
            strict=True,
        )
    }
    assert len(found) == 10
    # Environment 0: row 1 was cut, its final observation is 1.5.
    assert found[0] == (0 + 0.5 * 1, 1.5, 0.25)
    assert found[1] == (1, 1.5, 0.5)
    assert found[2] == (2 + 0.5 * 3 + 0.25 * 4, 5, 0.125)
    assert found[3] == (3 + 0.5 * 4, 5, 0.25)  # the newest row ends it
    assert found[4] == (4, 5, 0.5)
    # Environment 1: row 2 is terminal.
    assert found[100][0] == 100 + 0.5 * 101 + 0.25 * 102 and found[100][2] == 0
    assert found[101][0] == 101 + 0.5 * 102 and found[101][2] == 0
    assert found[102][0] == 102 and found[102][2] == 0
    assert found[103] == (103 + 0.5 * 104, 105, 0.25)


@pytest.mark.parametrize("rows", [9, 13, 22, 31])
def test_several_steps_never_cross_the_seam(rows: int) -> None:
    batch = ring(rows).sample(2000, torch.Generator().manual_seed(0), gamma=1.0, steps=4)
    first, goes_on = batch["obs"][:, 0], batch["discount"] > 0
    steps = (batch["next_obs"][:, 0] - first)[goes_on]
    assert float(steps.min()) >= 0.5 and float(steps.max()) <= 4
    assert (first + (batch["next_obs"][:, 0] - first)).max() <= 100 + rows


def prioritised(rows: int, capacity: int = 8) -> ReplayBuffer:
    buffer = ReplayBuffer(spec(), capacity * 2, priority_exponent=0.5)
    fill(buffer, 0, rows)
    return buffer


@pytest.mark.parametrize("rows", [3, 8, 9, 20, 33])
def test_before_any_error_is_known_all_valid_rows_are_drawn_alike(rows: int) -> None:
    buffer, plain = prioritised(rows), ring(rows)
    batch, other = sample_all(buffer), sample_all(plain)
    assert set(batch["obs"][:, 0].tolist()) == set(other["obs"][:, 0].tolist())
    assert torch.allclose(batch["probability"], other["probability"])


def test_draws_follow_the_errors_and_tell_their_probability() -> None:
    buffer = prioritised(8)
    batch = sample_all(buffer)
    # |δ| = 15 for environment 0's row 2, 0 for all others: priorities 15^½ and (1e-6)^½.
    error = torch.where(batch["obs"][:, 0] == 2, -15.0, 0.0)
    buffer.prioritise(batch["index"], error)
    again = sample_all(buffer)
    heavy = again["obs"][:, 0] == 2
    share = 3.872983 / (3.872983 + 15 * 0.001)
    assert again["probability"][heavy].unique().tolist() == pytest.approx([share])  # type: ignore[no-untyped-call]
    assert float(heavy.float().mean()) == pytest.approx(share, abs=0.005)
    # A new row counts as the largest so far, until its own error is known.
    buffer.add(*row(8))
    batch = sample_all(buffer)
    assert {2.0, 8.0, 108.0} <= set(batch["obs"][:, 0].tolist())
    for obs in (2.0, 8.0, 108.0):
        assert float((batch["obs"][:, 0] == obs).float().mean()) == pytest.approx(1 / 3, abs=0.05)


def test_a_dropped_row_is_drawn_no_more_whatever_its_priority() -> None:
    buffer = prioritised(8)
    batch = sample_all(buffer)
    buffer.prioritise(batch["index"], torch.where(batch["obs"][:, 0] == 0, 1e6, 1.0))
    fill(buffer, 8, 9)
    assert 0.0 not in sample_all(buffer)["obs"][:, 0].tolist()


@pytest.mark.parametrize("kept", [8, 5])
def test_priorities_come_back_with_their_rows(kept: int) -> None:
    buffer = prioritised(20)
    batch = sample_all(buffer)
    buffer.prioritise(batch["index"], batch["obs"][:, 0] + 1)
    other = prioritised(3)
    other.restore(20, [(12, buffer.segment(12, 20))], buffer.marks())
    a, b = buffer.marks(), other.marks()
    assert torch.equal(a["priority"], b["priority"]) and torch.equal(a["largest"], b["largest"])
    assert_same(sample_all(buffer), sample_all(other))
    heir = ReplayBuffer(spec(), kept * 2, priority_exponent=0.5)  # who may hold less
    heir.restore(20, [(12, buffer.segment(12, 20))], buffer.marks())
    assert torch.equal(heir.marks()["priority"], a["priority"][-kept:])
    nothing = prioritised(0)  # who inherits no row has no priority either
    nothing.restore(20, (), buffer.marks())
    assert len(nothing.marks()["priority"]) == 0
    nothing.add(*row(20))
    assert sample_all(nothing)["obs"][:, 0].unique().tolist() == [20.0, 120.0]  # type: ignore[no-untyped-call]


@pytest.mark.parametrize("rows", [1, 4, 6, 9, 10, 14, 15, 16])
def test_what_is_cut_off_is_what_was_truncated_at_its_last_step(rows: int) -> None:
    made = [row(t, **FLAGS.get(t, {})) for t in range(rows)]
    obs, action, step = made[-1]
    ended = [*made[:-1], (obs, action, step._replace(truncated=~step.terminated))]
    assert_same(cut_off(segment_of(made)), segment_of(ended))
    assert_same(cut_off(segment_of(ended)), segment_of(ended))


@pytest.mark.parametrize("kept", [1, 2, 7, 12, 16, 20])
def test_the_newest_rows_of_a_segment_are_a_segment(kept: int) -> None:
    made = [row(t, **FLAGS.get(t, {})) for t in range(16)]
    assert_same(newest(segment_of(made), kept), segment_of(made[-kept:]))


def test_no_transition_joins_what_was_cut_off_to_what_came_after() -> None:
    before = ring(6)
    after = ReplayBuffer(spec(), 16)
    after.restore(6, [(0, cut_off(before.segment(0, 6)))])
    fill(after, 50, 52)
    batch = after.sample(2000, torch.Generator().manual_seed(0), gamma=0.5, steps=3)
    times = batch["obs"][:, 0] % 100
    last = times == 5
    alive = last & (batch["discount"] > 0)
    assert bool(alive.any())
    assert bool((batch["next_obs"][alive, 0] % 100 == 6).all())
    assert bool((batch["discount"][alive] == 0.5).all())
