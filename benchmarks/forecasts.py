"""Forecasts beside what happened: ``python benchmarks/forecasts.py``.

Of each recorded run (``data/forecasts.jsonl``) what ``hpcpod status`` says at 25, 50 and 75 % of
its time, and when it ended. The goal: within 30 % of what happened in 80 % of the cases. "One mean"
is a forecast by the mean cost of all rounds, without finals.

``--record`` runs them anew (``forecasting/runs.py``), or those that are named: about a minute each
on two idle cores. Those on Slurm need one, named by ``SLURM_CONF``.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from forecasting.recording import Recording, from_json, record, thinned, to_json
from forecasting.runs import RUNS

from hpcpod.orchestrator.snapshot import Snapshot
from hpcpod.run.forecast import Forecast, forecast
from hpcpod.run.usage import used

DATA = Path(__file__).parent / "data" / "forecasts.jsonl"
CLOSE = 0.3
"""Of what happened."""
GOAL = 0.8
"""Of the cases are to be as close."""


@dataclass(frozen=True)
class Case:
    """One forecast, and what happened."""

    said: Forecast | None
    one_mean: float | None
    """Seconds, by the mean cost of all rounds."""
    happened: float
    """Seconds."""

    @property
    def close(self) -> bool:
        """The forecast was within ``CLOSE`` of what happened."""
        return self.said is not None and self._is_close(self.said.seconds)

    @property
    def once_close(self) -> bool:
        """The one by the mean cost of all rounds was."""
        return self.one_mean is not None and self._is_close(self.one_mean)

    @property
    def held(self) -> bool:
        """True if what happened was in the range that was said."""
        return self.said is not None and self.said.low <= self.happened <= self.said.high

    def _is_close(self, seconds: float) -> bool:
        return abs(seconds - self.happened) <= CLOSE * self.happened


def main() -> None:
    options = parse(sys.argv[1:])
    known = {recording.name: recording for recording in read(DATA)}
    for name in RUNS if options.record == [] else options.record or ():
        known[name] = thinned(record(name, RUNS[name]))
        lines = [json.dumps(to_json(known[name]), separators=(",", ":")) for name in known]
        DATA.write_text("\n".join(lines) + "\n")
    print(render(list(known.values())))


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--record", nargs="*", choices=[*RUNS], metavar="RUN")
    return parser.parse_args(arguments)


def read(path: Path) -> list[Recording]:
    if not path.exists():
        return []
    return [from_json(json.loads(line)) for line in path.read_text().splitlines()]


def cases(recording: Recording) -> list[Case]:
    return [
        Case(
            forecast(seen),
            one_mean(seen),
            recording.ended - seen.now,
        )
        for seen in recording.frames
    ]


def one_mean(seen: Snapshot) -> float | None:
    """Seconds to the end if all rounds took as long as those so far did on average."""
    board, stop = seen.board, seen.config.stop
    slot_seconds, at_work = used(seen.restarts).slot_seconds, len(seen.slots)
    found = []
    if stop.minutes is not None and board.began is not None:
        found.append(board.began + 60 * stop.minutes - seen.now)
    if at_work and board.rounds and stop.rounds is not None:
        left = [stop.rounds - p.birth.round + 1 for p in board.living if p.birth is not None]
        turns = max(sum(left) / at_work, max(left)) if left else 0.0
        found.append(turns * slot_seconds / board.rounds)
    if at_work and board.env_steps and stop.env_steps is not None:
        left_steps = max(0, stop.env_steps - board.env_steps)
        found.append(left_steps * slot_seconds / (at_work * board.env_steps))
    return min(found, default=None) if board.phase == "running" else None


def render(recordings: Sequence[Recording]) -> str:
    """The table, and how often the forecasts were close."""
    return "\n".join(_lines(recordings))


def _lines(recordings: Sequence[Recording]) -> Iterator[str]:
    yield "| run (ended by) | load | " + " | ".join(f"at {p} %" for p in (25, 50, 75)) + " |"
    yield "|---|---|---|---|---|"
    found = [case for recording in recordings for case in cases(recording)]
    for recording in recordings:
        cells = " | ".join(_cell(case) for case in cases(recording))
        yield f"| {recording.name} ({recording.reason}) | {recording.load:g} | {cells} |"
    yield ""
    yield _told("All", found)
    unseen = [r for r in recordings if r.name.startswith("unseen")]
    if unseen:
        yield _told("Unseen", [case for recording in unseen for case in cases(recording)])


def _told(which: str, found: Sequence[Case]) -> str:
    return (
        f"{which}: within {CLOSE:.0%} of what happened: {sum(case.close for case in found)} of"
        f" {len(found)}; by one mean: {sum(case.once_close for case in found)}. In the range that"
        f" was said: {sum(case.held for case in found)}."
    )


def _cell(case: Case) -> str:
    if case.said is None:
        return f"-, {case.happened:.0f}"
    said = f"{case.said.seconds:.0f} ({case.said.low:.0f} to {case.said.high:.0f})"
    words = f"{said}, {case.happened:.0f}"
    return words if case.close else f"**{words}**"


if __name__ == "__main__":
    main()
