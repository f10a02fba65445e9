"""Sessions: a training script's side of a round, over files, in any framework and any Python.

This file needs Python 3.8 and nothing else. Where hpcpod can't be installed, copy it beside the
script and write ``import session as hpcpod``. The contract is docs/your-program.md.
"""

from __future__ import annotations

import json
import math
import os
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

FORMAT = 1
FOLDER = "HPCPOD_SESSION"
"""Environment variable: the session's folder; unset outside of a run."""
RANKS = ("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK")
"""Environment variables by which torchrun, srun and mpirun number processes; the first counts."""
SHORTEST_WAIT, LONGEST_WAIT = 0.002, 0.02
"""Seconds between two looks at a file that hpcpod is to write or to remove."""
ENDLESS = sys.maxsize
"""Steps that are left where the round's budget is none of steps."""


class SessionError(ValueError):
    """A program's call that can't be taken as it is, or a session's folder that can't be read."""


def session(steps: int = 100_000, episodes: int = 16, **defaults: Any) -> Session:
    """The task that hpcpod gives this process; outside of a run, one made of the arguments.

    Args:
        steps: Budget outside of a run, in the script's own unit; ``HPCPOD_STEPS`` overrides it.
        episodes: Length of ``panel_seeds`` outside of a run.
        **defaults: Hyperparameters that the script knows, each with the value that it has where
            the run does not search it. Without any, whatever the run searches is taken.

    Raises:
        SessionError: The folder can't be read, or the run searches a hyperparameter that
            ``defaults`` does not name.
    """
    folder = os.environ.get(FOLDER)
    if folder is None:
        return Session(_task_by_hand(steps, episodes), defaults, in_run=False)
    return Session(_read(Path(folder) / "task.json"), defaults)


def sessions(steps: int = 100_000, episodes: int = 16, **defaults: Any) -> Iterator[Session]:
    """One task after another, for a process that is kept between rounds; outside of a run, one.

    A later task may be another pod's: build anew, or load, by its hyperparameters and its
    checkpoint. The arguments are those of `session`.

    Raises:
        SessionError: As `session`; a task was left without a report.
    """
    folder = os.environ.get(FOLDER)
    if folder is None:
        yield session(steps, episodes, **defaults)
        return
    if rank() == 0:
        _write(Path(folder) / "hello.json", {"format": FORMAT, "keep": True})
    task: dict[str, Any] | None = _read(Path(folder) / "task.json")
    while task is not None:
        pod = Session(task, defaults)
        yield pod
        if not pod.reported:
            if pod._interrupted:  # its last save counts
                return
            raise SessionError(f"round {pod.round} of {pod.pod} was left without a report")
        task = _next_task(Path(folder), task)


def rank() -> int:
    """The number of this process among those of the program; 0 where it is alone."""
    return next((int(os.environ[name]) for name in RANKS if name in os.environ), 0)


class Session:
    """One pod's round, as its program sees it.

    Attributes:
        pod, round, attempt: The pod's name, and numbers from 1; of no use but in a log.
        mode: ``"train"``, or ``"score"``: load ``checkpoint``, train nothing, report.
        hyperparameters: By name: those of the run, and the script's defaults of the others.
        seed: Of this round's random numbers.
        checkpoint: Folder of the last save, this pod's own or its parent's; None at the start.
            To be read only.
        panel_seeds: A seed for each episode of the evaluation, the same for every pod.
        steps: The round's budget in the program's own unit; None where there is none.
        steps_done: Of these the checkpoint holds, if an attempt at this round was interrupted.
        seconds: The round's budget of time, from now on; None where there is none.
        reported: True after `report`.
    """

    def __init__(
        self, task: Mapping[str, Any], defaults: Mapping[str, Any], *, in_run: bool = True
    ) -> None:
        given: Mapping[str, Any] = task["hyperparameters"]
        unknown = sorted(set(given) - set(defaults)) if defaults else []
        if unknown:
            raise SessionError(
                f"the run searches {', '.join(unknown)}, which session() does not name: it names"
                f" {', '.join(sorted(defaults))}; rename one of the two"
            )
        self.pod: str = task["pod"]
        self.round: int = task["round"]
        self.attempt: int = task["attempt"]
        self.mode: str = task["mode"]
        self.hyperparameters: dict[str, Any] = {**defaults, **given}
        self.seed: int = task["seed"]
        self.checkpoint = Path(task["checkpoint"]) if task["checkpoint"] else None
        self.panel_seeds: list[int] = list(task["panel_seeds"])
        self.steps: int | None = task["steps"]
        self.steps_done: int = task["steps_done"]
        self.seconds: float | None = task["seconds"]
        self.reported = False
        self._task = task
        self._in_run = in_run
        self._writes = in_run and rank() == 0
        self._begun = time.monotonic()
        self._trained, self._told = 0, False
        if self._writes:  # seconds of training count from here
            Path(task["report_to"]).with_name(f"begun-{task['number']}").touch()

    @property
    def save_to(self) -> Path:
        """The folder to save in; it exists.

        Raises:
            SessionError: In mode ``score`` nothing is saved.
        """
        if self._task["save_to"] is None:
            raise SessionError("nothing is saved in mode 'score': load checkpoint, and report")
        folder = Path(self._task["save_to"])
        if not self._in_run and not folder.exists():
            print(f"hpcpod: no run: saving to {folder}", file=sys.stderr)  # noqa: T201
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    @property
    def train_steps_left(self) -> int:
        """Steps until the round's end; 0 in mode ``score`` and when its seconds are spent,
        `ENDLESS` before that where the budget is of seconds alone."""
        if self.mode == "score" or self.seconds_left <= 0:
            return 0
        if self.steps is None:
            return ENDLESS
        return max(0, self.steps - self.steps_done - self._trained)

    @property
    def seconds_left(self) -> float:
        """Seconds until the round's end; infinite where the budget is of steps alone."""
        if self.seconds is None:
            return math.inf
        return self.seconds - (time.monotonic() - self._begun)

    @property
    def should_stop(self) -> bool:
        """True once the program should save, report and return: it is being preempted, its time is
        up, or its node is drained. Costs microseconds: ask as often as the training can react."""
        return self.seconds_left <= 0 or self._interrupted

    @property
    def _interrupted(self) -> bool:
        return self._in_run and Path(self._task["stop_file"]).exists()

    def progress(self, steps: int | None = None, **metrics: float) -> None:
        """Tell how far training is, and numbers for the curves.

        Args:
            steps: Steps trained since this session began, not since the last call.
            **metrics: Finite numbers by name.

        Raises:
            SessionError: A number is not finite, or ``steps`` has not grown.
        """
        self._check_open("progress")
        if steps is not None:
            if self._told and steps == self._trained:
                raise SessionError(
                    f"progress: steps={steps} a second time; count from the session's begin, not"
                    " from the last call"
                )
            self._count(steps, "progress")
        line = {"steps": self._trained, **_metrics(metrics, "progress")}
        if self._writes:
            with Path(self._task["progress_to"]).open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")

    def saved(self, steps: int | None = None) -> None:
        """Declare what lies in ``save_to`` complete in the middle of a round: an interrupted
        attempt goes on from there. Returns when hpcpod has taken the files, which may then be
        overwritten. A round's last save needs no call: its report stands for it.

        Args:
            steps: Steps trained since this session began; those of `progress` if left out.

        Raises:
            SessionError: ``save_to`` is empty, or the session is gone.
        """
        self._check_open("saved")
        self._check_saved("saved")
        if steps is not None:
            self._count(steps, "saved")
        if not self._writes:
            return
        folder = Path(self._task["report_to"]).parent
        mark = folder / f"saved-{self._trained}.json"
        _write(mark, {"format": FORMAT, "steps": self._trained})
        for _ in _waits():
            if not mark.exists():
                break
        if not folder.exists():
            raise SessionError(f"the session in {folder} is over: nothing takes its save")

    def report(
        self,
        returns: Iterable[float] | Mapping[int, float] | None = None,
        score: float | None = None,
        error: float | None = None,
        episodes: int | None = None,
        steps: int | None = None,
        **metrics: float,
    ) -> None:
        """End the round: what lies in ``save_to`` is this pod's checkpoint, and this its score.

        Args:
            returns: One for each of ``panel_seeds``, in their order, or by seed.
            score: Where episodes can't have seeds: their mean.
            error: Its standard error, 0 or more; without it the run can rank, and test nothing.
            episodes: How many there were, if known: the score's interval is by their number.
            steps: Steps trained since this session began; those of `progress` if left out.
            **metrics: Finite numbers by name; ``population.cost`` may name one.

        Raises:
            SessionError: A number is missing, too many or not finite; a second report; nothing is
                saved, but in mode ``score``.
        """
        self._check_open("report")
        result = self._result(returns, score, error, episodes)
        if self.mode == "train":
            if steps is None and not self._told and self.train_steps_left not in (0, ENDLESS):
                raise SessionError("report: steps= is missing, and progress() told none")
            if steps is not None:
                self._count(steps, "report")
            self._check_saved("report")
        result.update(format=FORMAT, steps=self._trained, metrics=_metrics(metrics, "report"))
        if self._writes:
            _write(Path(self._task["report_to"]), result)
        self.reported = True
        if not self._in_run:
            _say(result, self.panel_seeds)

    def _result(
        self,
        returns: Iterable[float] | Mapping[int, float] | None,
        score: float | None,
        error: float | None,
        episodes: int | None,
    ) -> dict[str, Any]:
        """The part of a report that is the score."""
        if (returns is None) == (score is None):
            raise SessionError("report: give returns=, or score= and its error=")
        if returns is not None:
            return {"returns": _in_order(returns, self.panel_seeds)}
        numbers = {"score": score} if error is None else {"score": score, "error": error}
        result: dict[str, Any] = _metrics(numbers, "report")
        if error is not None and error < 0:
            raise SessionError(f"report: error={error} is negative")
        if episodes is not None:
            if int(episodes) < 1:
                raise SessionError(f"report: episodes={episodes} is not 1 or more")
            result["episodes"] = int(episodes)
        return result

    def _count(self, steps: int, where: str) -> None:
        """Take the steps that were trained so far."""
        count = int(steps)
        if count != steps or count < 0:
            raise SessionError(f"{where}: steps={steps} is no whole number of steps, 0 or more")
        if count < self._trained:
            raise SessionError(
                f"{where}: steps fell from {self._trained} to {count}; count from the session's"
                " begin, not from the last call"
            )
        self._trained, self._told = count, True

    def _check_open(self, where: str) -> None:
        """Refuse whatever comes after the report, be it another Session's of the same task."""
        if self.reported or (self._writes and Path(self._task["report_to"]).exists()):
            raise SessionError(f"{where}: this round was reported already")

    def _check_saved(self, where: str) -> None:
        if rank() == 0 and next(self.save_to.iterdir(), None) is None:
            raise SessionError(f"{where}: nothing is saved in {self.save_to}: save first")


def _task_by_hand(steps: int, episodes: int) -> dict[str, Any]:
    """A task outside of a run, of arguments and of the variables that a run would set."""
    given = os.environ.get
    mode = given("HPCPOD_MODE", "train")
    checkpoint = given("HPCPOD_CHECKPOINT")
    seconds = given("HPCPOD_SECONDS")
    return {
        "pod": "by hand", "round": 1, "attempt": 1, "mode": mode,
        "hyperparameters": json.loads(given("HPCPOD_HYPERPARAMETERS", "{}")),
        "seed": int(given("HPCPOD_SEED", "0")),
        "checkpoint": checkpoint,
        "save_to": given("HPCPOD_SAVE_TO", "hpcpod-session") if mode == "train" else None,
        "steps": int(given("HPCPOD_STEPS", str(steps))), "steps_done": 0,
        "seconds": float(seconds) if seconds else None,
        "panel_seeds": list(range(episodes)),
    }  # fmt: skip


def _next_task(folder: Path, last: Mapping[str, Any]) -> dict[str, Any] | None:
    """The task after one that was reported; None when there is to be none."""
    for _ in _waits():
        if not folder.exists() or Path(last["stop_file"]).exists():
            return None
        task = _read(folder / "task.json")
        if task.get("end") or task["number"] > last["number"]:
            return None if task.get("end") else task
    return None


def _waits() -> Iterator[None]:
    """Moments to look at something, ever rarer down to every 20 ms."""
    wait = SHORTEST_WAIT
    while True:
        yield
        time.sleep(wait)
        wait = min(LONGEST_WAIT, wait * 1.03)


def _read(path: Path) -> dict[str, Any]:
    try:
        task: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise SessionError(f"{FOLDER} names {path.parent}, which has no task: {error}") from error
    if task.get("format") != FORMAT:
        raise SessionError(
            f"{path} has format {task.get('format')}, and this session.py knows {FORMAT}: take that"
            " of the hpcpod that runs"
        )
    return task


def _write(path: Path, content: Mapping[str, Any]) -> None:
    """Write a file whole: no reader sees a part of it."""
    part = path.with_name(path.name + ".part")
    part.write_text(json.dumps(content), encoding="utf-8")
    part.replace(path)


def _metrics(metrics: Mapping[str, Any], where: str) -> dict[str, float]:
    """Numbers of Python, of whatever a framework gives; each finite."""
    numbers = {}
    for name, value in metrics.items():
        try:
            numbers[name] = float(value)
        except (TypeError, ValueError) as error:
            raise SessionError(f"{where}: {name}={value!r} is no number") from error
        if not math.isfinite(numbers[name]):
            raise SessionError(
                f"{where}: {name} is {numbers[name]}; leave out what has no value yet, and let a"
                " training that diverged end"
            )
    return numbers


def _in_order(returns: Iterable[float] | Mapping[int, float], seeds: list[int]) -> list[float]:
    """A return for each seed, in the seeds' order."""
    if isinstance(returns, Mapping):
        if set(returns) != set(seeds):
            raise SessionError("report: the returns are of other seeds than panel_seeds")
        returns = [returns[seed] for seed in seeds]
    values = list(returns)
    if len(values) != len(seeds):
        raise SessionError(
            f"report: {len(values)} returns for {len(seeds)} panel_seeds: give one for each"
        )
    named = {f"return {n} (seed {seeds[n - 1]})": value for n, value in enumerate(values, 1)}
    return list(_metrics(named, "report").values())


def _say(result: Mapping[str, Any], seeds: list[int]) -> None:
    """Print a report outside of a run."""
    if "score" in result:
        error = f" ± {result['error']:.2g}" if "error" in result else ""
        words = f"score {result['score']:.6g}{error}"
    else:
        words = f"mean return {sum(result['returns']) / len(seeds):.6g} of {len(seeds)} episodes"
    print(f"hpcpod: no run: {words} after {result['steps']} steps")  # noqa: T201
