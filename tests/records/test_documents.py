"""Boards survive JSON exactly, whatever is on them."""

from __future__ import annotations

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hpcpod.records.records import (
    Birth,
    Board,
    Checkpoint,
    Confirmed,
    Entry,
    Evaluation,
    PodState,
    Rescore,
    Segment,
)

NUMBERS = st.floats(allow_nan=False, allow_infinity=False)
TEXT = st.text(max_size=8)
COUNTS = st.integers(0, 2**53)
RETURNS = st.lists(NUMBERS, max_size=4).map(tuple)
SCALARS = st.one_of(st.booleans(), COUNTS, NUMBERS, TEXT)
HYPERPARAMETERS = st.dictionaries(TEXT, SCALARS, max_size=3)
SEGMENTS = st.lists(st.builds(Segment, COUNTS, COUNTS, TEXT), max_size=2).map(tuple)
CHECKPOINTS = st.builds(Checkpoint, TEXT, COUNTS, COUNTS, SEGMENTS)
BIRTHS = st.builds(
    Birth,
    TEXT,
    COUNTS,
    COUNTS,
    TEXT,
    HYPERPARAMETERS,
    COUNTS,
    st.none() | CHECKPOINTS,
    st.booleans(),
)
RESCORES = st.builds(
    Rescore,
    st.sampled_from(["confirm", "final"]),
    COUNTS,
    TEXT,
    COUNTS,
    TEXT,
    HYPERPARAMETERS,
    CHECKPOINTS,
    COUNTS,
)
EVALUATIONS = st.builds(
    Evaluation, COUNTS, RETURNS, CHECKPOINTS, st.dictionaries(TEXT, NUMBERS, max_size=2)
)
PODS = st.builds(
    PodState,
    id=TEXT,
    algorithm=TEXT,
    family=TEXT,
    hyperparameters=HYPERPARAMETERS,
    seed=COUNTS,
    cause=st.sampled_from(["fresh", "copy"]),
    control=st.booleans(),
    parent=st.none() | TEXT,
    parent_returns=RETURNS,
    replaces=st.none() | TEXT,
    mutated=st.lists(TEXT, max_size=2).map(tuple),
    transfer_exact=st.none() | st.booleans(),
    fate=st.sampled_from(["alive", "replaced", "failed"]),
    failures=COUNTS,
    failure=TEXT,
    birth=st.none() | BIRTHS,
    history=st.lists(EVALUATIONS, max_size=2).map(tuple),
    best=st.none() | EVALUATIONS,
)
ENTRIES = st.builds(Entry, TEXT, TEXT, COUNTS, NUMBERS, NUMBERS, NUMBERS, COUNTS, CHECKPOINTS)
CONFIRMED = st.builds(
    Confirmed,
    pod=TEXT,
    round=COUNTS,
    purpose=st.sampled_from(["confirm", "final"]),
    number=COUNTS,
    mean=NUMBERS,
    low=NUMBERS,
    high=NUMBERS,
    episodes=COUNTS,
    passed=st.booleans(),
    checkpoint=CHECKPOINTS,
)
BOARDS = st.builds(
    Board,
    started=NUMBERS,
    phase=st.sampled_from(["running", "finals", "finished"]),
    began=st.none() | NUMBERS,
    stop_reason=st.none() | TEXT,
    failure=TEXT,
    stopped=st.none() | NUMBERS,
    winner=st.none() | TEXT,
    env_steps=COUNTS,
    reports=COUNTS,
    rounds=COUNTS,
    next_pod=COUNTS,
    attempts=COUNTS,
    pods=st.dictionaries(TEXT, PODS, max_size=3),
    entries=st.lists(ENTRIES, max_size=2).map(tuple),
    rescores=st.dictionaries(TEXT, RESCORES, max_size=2),
    confirmed=st.lists(CONFIRMED, max_size=2).map(tuple),
)


@pytest.mark.long
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(BOARDS)
def test_a_board_survives_json_exactly(board: Board) -> None:
    document = json.loads(json.dumps(board.document(), allow_nan=False))
    again = Board.from_document(document)
    assert again == board
    assert again.document() == board.document()
