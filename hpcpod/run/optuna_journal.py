"""A run as a study of Optuna, in its journal's format: pods are trials.

The format is a line of JSON for each operation (``optuna.storages.JournalStorage``), and optuna is
not needed to write it. Its readers differ: the page and the extension of VS Code believe no
intermediate value and no score that comes with a trial's creation, and can't read NaN, so all that
follows the creation is written as operations of its own.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timezone
from typing import Any

from hpcpod.config.space import AlgorithmSpace, Choice, Int, LogUniform, Range, Scalar
from hpcpod.records.records import Board, PodState
from hpcpod.run.data import Look
from hpcpod.run.data_rows import birth_rows, fresh_score
from hpcpod.run.history import Result
from hpcpod.run.tables import visible

# optuna.storages.journal._storage.JournalOperation
CREATE_STUDY, STUDY_USER_ATTR, STUDY_SYSTEM_ATTR, CREATE_TRIAL = 0, 2, 3, 4
STATE_VALUES, INTERMEDIATE_VALUE, TRIAL_USER_ATTR = 6, 7, 8

RUNNING, COMPLETE, PRUNED, FAIL = 0, 1, 2, 3  # optuna.trial.TrialState
MAXIMIZE = 2  # optuna.study.StudyDirection

WORKER = "hpcpod"


def journal(look: Look) -> bytes:
    """The whole journal of a run.

    A trial's values are mean returns, so the study is to be maximised:

    - ``COMPLETE`` is a pod that was scored on fresh seeds, with that score. Of a run that ended
      without such scores it is one on the leaderboard, with its estimated mean return.
    - ``FAIL`` is a pod that failed, ``RUNNING`` one that lives while the run goes on, ``PRUNED``
      any other, with the mean of its last panel.

    Intermediate values are panel means by round. Parameters are hyperparameters that have a range,
    behind the algorithm's name where there are several. The others are attributes of the study.
    """
    lines = map(json.dumps, map(_sound, _operations(look)))
    return "".join(f"{line}\n" for line in lines).encode()


def _operations(look: Look) -> Iterator[dict[str, Any]]:
    board, resolved = look.board, look.folder.resolved
    config = resolved.config
    yield _operation(CREATE_STUDY, study_name=config.name, directions=[MAXIMIZE])
    named = {"study:metric_names": ["mean return"]}
    yield _operation(STUDY_SYSTEM_ATTR, study_id=0, system_attr=named)
    about: dict[str, Any] = {
        "run": config.name, "env": config.env.id, "phase": board.phase,
        "stop_reason": board.stop_reason, "winner": board.winner, "env_steps": board.env_steps,
    }  # fmt: skip
    several = len(resolved.algorithms) > 1
    for algorithm, space in resolved.algorithms.items():
        for key, value in space.values.items():
            if not isinstance(value, Range):
                about[_name(algorithm, key, several)] = value
    for name, value in about.items():
        yield _operation(STUDY_USER_ATTR, study_id=0, user_attr={name: value})
    rounds: dict[str, list[Result]] = {}
    for result in look.results:
        if result.purpose == "round" and result.counted:
            rounds.setdefault(result.pod, []).append(result)
    born = {row.pod: row.time for row in birth_rows(board, look.decisions)}
    for number, (name, pod) in enumerate(sorted(board.pods.items())):
        yield from _trial(number, look, pod, rounds.get(name, []), born[name])


def _trial(
    number: int, look: Look, pod: PodState, rounds: list[Result], born: float | None
) -> Iterator[dict[str, Any]]:
    """The operations of one pod."""
    spaces = look.folder.resolved.algorithms
    params, others = _parameters(pod, spaces)
    begun = _time(look.board.started if born is None else born)
    yield _operation(
        CREATE_TRIAL, study_id=0, datetime_start=begun,
        distributions={name: json.dumps(_sound(kind)) for name, (kind, _) in params.items()},
        params={name: value for name, (_, value) in params.items()},
    )  # fmt: skip
    points = {row.round: row.mean for row in rounds if row.mean is not None}
    for step, mean in points.items():
        yield _operation(INTERMEDIATE_VALUE, trial_id=number, step=step, intermediate_value=mean)
    about = {
        "pod": pod.id, "algorithm": pod.algorithm, "family": pod.family, "cause": pod.cause,
        "parent": pod.parent, "parent_round": pod.parent_round if pod.parent else None,
        "replaces": pod.replaces, "evidence": pod.evidence, "mutated": list(pod.mutated),
        "control": pod.control, "fate": pod.fate, "fate_reason": pod.fate_reason,
        "winner": pod.id == look.board.winner, "rounds": len(points),
        **others,
    }  # fmt: skip
    for name, value in about.items():
        if value is not None:  # the page asks each for its text
            yield _operation(TRIAL_USER_ATTR, trial_id=number, user_attr={name: value})
    state, score = _outcome(look.board, pod, list(points.values()))
    if state == RUNNING:
        return
    ended = max((row.ended for row in rounds), default=None)
    ended = ended or look.board.stopped or look.board.started
    yield _operation(
        STATE_VALUES, trial_id=number, state=state, values=None if score is None else [score],
        datetime_start=begun, datetime_complete=_time(ended),
    )  # fmt: skip


def _outcome(board: Board, pod: PodState, means: list[float]) -> tuple[int, float | None]:
    """The state of a trial, and its value."""
    if pod.fate == "alive" and board.phase != "finished":
        return RUNNING, None
    score = fresh_score(board, pod.id)
    if score is not None and math.isfinite(score.mean):
        return COMPLETE, score.mean
    if pod.fate == "failed":
        return FAIL, None
    scored = any(each.episodes > 0 for each in board.confirmed)
    entry = next((each for each in board.entries if each.pod == pod.id), None)
    # The best of many panels is too high: beside scores on fresh seeds it would win.
    if board.phase == "finished" and entry is not None and not scored:
        return COMPLETE, entry.mean if entry.estimate is None else entry.estimate
    return PRUNED, means[-1] if means else None


def _parameters(
    pod: PodState, spaces: Mapping[str, AlgorithmSpace]
) -> tuple[dict[str, tuple[dict[str, Any], float]], dict[str, Scalar]]:
    """A pod's searched hyperparameters, each with its distribution and its value within; and those
    that are none of the run's, such as of an older configuration."""
    space, several = spaces.get(pod.algorithm), len(spaces) > 1
    found: dict[str, tuple[dict[str, Any], float]] = {}
    others: dict[str, Scalar] = {}
    if several:
        found["algorithm"] = _choice(pod.algorithm, [*spaces])
    for name, value in pod.hyperparameters.items():
        allowed = None if space is None else space.values.get(name)
        held = _held(value, allowed) if isinstance(allowed, Range) else None
        if held is not None:
            found[_name(pod.algorithm, name, several)] = held
        elif value != allowed:
            others[_name(pod.algorithm, name, several)] = value
    return found, others


def _name(algorithm: str, hyperparameter: str, several: bool) -> str:
    """The name of a hyperparameter in a study: those of several algorithms have other ranges."""
    return f"{algorithm}.{hyperparameter}" if several else hyperparameter


def _held(value: Scalar, allowed: Range) -> tuple[dict[str, Any], float] | None:
    """Optuna's distribution of a range, and a value in it; None if the range does not hold it."""
    if isinstance(allowed, Choice):
        return _choice(value, allowed.values) if _place(value, allowed.values) is not None else None
    if isinstance(value, (str, bool)) or not allowed.low <= value <= allowed.high:
        return None
    whole, log = isinstance(allowed, Int), isinstance(allowed, LogUniform)
    attributes = {
        "low": allowed.low, "high": allowed.high, "step": 1 if whole else None, "log": log,
    }  # fmt: skip
    kind = "IntDistribution" if whole else "FloatDistribution"
    return {"name": kind, "attributes": attributes}, value


def _choice(value: Scalar, choices: Iterable[Scalar]) -> tuple[dict[str, Any], float]:
    options = list(choices)
    place = _place(value, options)
    assert place is not None
    attributes = {"choices": options}
    return {"name": "CategoricalDistribution", "attributes": attributes}, place


def _place(value: Scalar, choices: Iterable[Scalar]) -> int | None:
    """The number of a value among choices, where ``True`` is another than 1."""
    for number, each in enumerate(choices):
        if each == value and isinstance(each, bool) == isinstance(value, bool):
            return number
    return None


def _operation(code: int, **fields: Any) -> dict[str, Any]:
    return {"op_code": code, "worker_id": WORKER, **fields}


def _time(seconds: float) -> str:
    """A Unix time as Optuna writes times."""
    try:
        moment = datetime.fromtimestamp(seconds, tz=timezone.utc)
    except (OverflowError, OSError, ValueError):  # another user may have written any number
        moment = datetime.fromtimestamp(0.0, tz=timezone.utc)
    return moment.isoformat(timespec="microseconds")


def _sound(data: Any) -> Any:
    """Data that every reader of JSON takes: no NaN, no half characters, no control characters."""
    if isinstance(data, str):
        return visible(data)
    if isinstance(data, float) and not math.isfinite(data):
        return str(data)
    if isinstance(data, dict):
        return {_sound(key): _sound(value) for key, value in data.items()}
    if isinstance(data, list):
        return [_sound(value) for value in data]
    return data
