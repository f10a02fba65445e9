"""Forecasts beside what happened: how near they came of recorded runs, and how one is recorded."""

from __future__ import annotations

from pathlib import Path

import pytest
from forecasting.recording import Recording, from_json, record, thinned, to_json
from forecasting.runs import RUNS
from forecasts import DATA, GOAL, Case, cases, read, render

from hpcpod.run.forecast import Forecast
from tests.support.small_runs import mapping

KNOWN = read(DATA)
CASES = [case for recording in KNOWN for case in cases(recording)]


def test_the_recorded_runs_are_the_ones_that_are_described() -> None:
    assert [recording.name for recording in KNOWN] == list(RUNS)
    assert DATA.stat().st_size < 300_000
    assert {recording.reason for recording in KNOWN} == {"rounds", "env_steps", "minutes"}
    assert all(len(recording.frames) == 3 for recording in KNOWN)


def test_forecasts_are_within_30_percent_of_what_happened_in_80_percent_of_cases() -> None:
    assert sum(case.close for case in CASES) >= GOAL * len(CASES)
    assert sum(case.held for case in CASES) >= GOAL * len(CASES)
    assert sum(case.close for case in CASES) > sum(case.once_close for case in CASES)


def test_every_recorded_moment_has_a_forecast() -> None:
    assert all(case.said is not None for case in CASES)


def test_a_case_by_hand() -> None:
    said = Forecast("rounds", 100.0, 80.0, 130.0)
    assert (Case(said, 40.0, 131.0).close, Case(said, 40.0, 131.0).held) == (True, False)
    assert (Case(said, 40.0, 76.0).close, Case(said, 60.0, 76.0).once_close) == (False, True)
    assert not Case(None, None, 10.0).close


def test_a_run_is_recorded_thinned_and_read_again(home: Path) -> None:
    recording = thinned(record("small", mapping("ppo", stop={"rounds": 4})), (0.5, 0.9))
    again = from_json(to_json(recording))
    assert (again.reason, len(again.frames)) == ("rounds", 2)
    for frame, whole in zip(again.frames, recording.frames, strict=True):
        assert frame.board.rounds == whole.board.rounds
        assert frame.now == pytest.approx(whole.now, abs=0.01)
        assert again.ended > frame.now
    assert render([again]).startswith("| run (ended by) | load | at 25 % |")
    assert isinstance(recording, Recording)
