"""Boards survive JSON exactly, whatever is on them."""

from __future__ import annotations

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hpcpod.records.records import (
    Birth,
    Board,
    Candidate,
    Checkpoint,
    Confirmed,
    Entry,
    Evaluation,
    Finals,
    Member,
    PodState,
    Rescore,
    Segment,
    Trial,
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
    st.sampled_from(["confirm", "final", "candidate", "report", "snapshot"]),
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
    purpose=st.sampled_from(["confirm", "final", "candidate", "report"]),
    number=COUNTS,
    mean=NUMBERS,
    low=NUMBERS,
    high=NUMBERS,
    episodes=COUNTS,
    passed=st.booleans(),
    checkpoint=CHECKPOINTS,
)
MEMBERS = st.lists(
    st.builds(Member, TEXT, COUNTS, TEXT, HYPERPARAMETERS, CHECKPOINTS), max_size=2
).map(tuple)
CANDIDATES = st.builds(Candidate, MEMBERS, TEXT, RETURNS, TEXT)
FINALS = st.builds(
    Finals,
    stage=st.sampled_from(["", "select", "confirm", "report"]),
    sets=st.dictionaries(TEXT, COUNTS, max_size=2),
    batches=st.lists(COUNTS, max_size=2).map(tuple),
    finalists=MEMBERS,
    returns=st.dictionaries(TEXT, RETURNS, max_size=2),
    candidates=st.lists(CANDIDATES, max_size=2).map(tuple),
    trials=st.lists(st.builds(Trial, COUNTS, NUMBERS, NUMBERS, NUMBERS, COUNTS), max_size=2).map(
        tuple
    ),
    delivered=st.none() | COUNTS,
    verdict=TEXT,
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
    finals=FINALS,
)


@pytest.mark.long
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(BOARDS)
def test_a_board_survives_json_exactly(board: Board) -> None:
    document = json.loads(json.dumps(board.document(), allow_nan=False))
    again = Board.from_document(document)
    assert again == board
    assert again.document() == board.document()
