"""Answers of a user's rules: in time, held against what can be and the types of their fields.

JSON has few of NumPy's values, and whoever reads a board takes no value of another type than its
field's: one of either in a pod or a decision would end every merge, or the board for all. So what
JSON has becomes Python's own, and the rest is refused.
"""

from __future__ import annotations

import json
import math
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NoReturn, TypeVar

from hpcpod.errors import ImpossibleBirth, in_words
from hpcpod.records.records import Hyperparameters, PodState, Report, Verdict, decode, encode
from hpcpod.tournament.allocation import Allocation
from hpcpod.tournament.cohorts import Cohorts
from hpcpod.tournament.offspring import Offspring
from hpcpod.tournament.privilege import privilege
from hpcpod.tournament.proposals import Copy, Fresh

T = TypeVar("T")
Contents = list[tuple[dict[Any, Any], dict[Any, Any]]]
"""Mappings, each with a copy of it."""


def answered_in(seconds: float, call: Callable[[], T]) -> T:
    """The answer of a call, if it comes in time. Python can't end a thread: one that goes on is
    left alone, and ends with the process at the latest.

    Raises:
        TimeoutError: it takes longer.
        Exception: whatever the call raises.
    """
    answers: list[T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            answers.append(call())
        except BaseException as error:  # SystemExit too: it is for the caller to see
            errors.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(seconds)
    if thread.is_alive():
        raise TimeoutError
    if errors:
        error = errors[0]
        raise error if isinstance(error, Exception) else RuntimeError(in_words(error))
    return answers[0]


def contents(cohorts: Cohorts) -> Contents:
    """Mappings of pods and of their spaces that a user's rule is shown, and could change."""
    pods, spaces = cohorts.board.pods.values(), cohorts.algorithms.values()
    births = [pod.birth for pod in pods if pod.birth is not None]
    shown: Iterable[object] = (
        cohorts.living, cohorts.members, cohorts.copies, cohorts.algorithms,
        *vars(cohorts.board).values(),
        *(pod.hyperparameters for pod in pods), *(birth.hyperparameters for birth in births),
        *(part for space in spaces for part in (space.values, space.defaults)),
    )  # fmt: skip
    return [(each, dict(each)) for each in shown if isinstance(each, dict)]


def taken_back(before: Contents) -> str:
    """Undo whatever a rule has changed since; why its answer can't stand, empty if nothing was."""
    changed = [(each, was) for each, was in before if not _same(each, was)]
    for each, was in changed:
        each.clear()
        each.update(was)
    # a parent's learning rate, raised in place for its child, was the parent's from then on
    return "it has changed what it was shown: change a copy" if changed else ""


def _same(each: Mapping[Any, Any], was: Mapping[Any, Any]) -> bool:
    """True of the very same items in the same order: a NumPy number may equal one of Python's, and
    an array has no truth."""
    pairs = zip(each.items(), was.items(), strict=False)
    return len(each) == len(was) and all(a is c and b is d for (a, b), (c, d) in pairs)


def unkept(answer: object) -> str:
    """The reason why a board can't keep a rule's answer, in words; empty if it can, and of what is
    no rule's answer at all."""
    return kept(answer)[1]


def kept(answer: T) -> tuple[T, str]:
    """A rule's answer as a board keeps it, of Python's own types, and why it can't; see ``unkept``.

    A number of NumPy's that is a float to Python, or a word that is a str, passes as one; as it
    stands in a board that is in memory it would not.
    """
    records = (Verdict, Copy, Fresh, Allocation)
    kind: Any = next((each for each in records if isinstance(answer, each)), None)
    name = type(answer).__name__
    if kind is None and isinstance(answer, Mapping):
        kind, name = Hyperparameters, "hyperparameters"
    if kind is None:
        return answer, ""
    try:
        plain = {field: _from_json(field, value) for field, value in encode(answer).items()}
        return decode(kind, plain), ""
    except TypeError as error:
        return answer, f"the board can't keep its {name}: {error}"


def _from_json(field: object, value: object) -> object:
    """A field's value as a file gives it back.

    Raises:
        TypeError: JSON has no such value.
    """
    try:
        return json.loads(json.dumps(value, default=_refuse))
    except (TypeError, ValueError) as error:
        raise TypeError(f"{field}: {error}") from error


def _refuse(value: object) -> NoReturn:
    kind = type(value)  # json's own words call a numpy.bool a bool
    raise TypeError(f"{value!r} is a {kind.__module__}.{kind.__qualname__}, which JSON has not")


def wrong_verdict(found: object, cohorts: Cohorts, report: Report) -> str:
    """The reason why an updater's verdict on a report can't stand, in words; empty if it can."""
    if not isinstance(found, Verdict):
        return f"it gives a {type(found).__name__}, not a Verdict"
    if not 0 <= found.place <= found.among:
        return f"it ranks {report.pod} number {found.place} of {found.among}"
    known = {each.round for each in cohorts.board.pods[report.pod].evaluations}
    if found.round and found.round not in known:  # of a later one it would never be compared again
        return f"it compares {report.pod} at round {found.round}, at which it has no evaluation"
    for rival in (*found.beaten_by, *(test.rival for test in found.tests)):
        if rival == report.pod or rival not in cohorts.board.pods:
            return f"it says that {report.pod} is beaten by {rival!r}, which is no other pod"
    # Whoever copies a rival looks for it among those that were compared.
    algorithm = cohorts.board.pods[report.pod].algorithm
    there = cohorts.cohort(algorithm, found.round).standings if found.round else {}
    for rival in found.beaten_by:
        if rival not in there:
            at = f"compared with it at round {found.round}" if found.round else "compared with it"
            return f"it says that {report.pod} is beaten by {rival!r}, which was not {at}"
    return ""


def wrong_birth(found: object, cohorts: Cohorts, offspring: Offspring, old: PodState) -> str:
    """The reason why a generator's answer about a pod can't be carried out, in words; empty if it
    can."""
    if found is None:
        return "it names no successor of a pod that has failed" if old.fate != "alive" else ""
    if not isinstance(found, (Copy, Fresh)):
        return f"it gives a {type(found).__name__}, not a Copy or a Fresh"
    heir = found.algorithm if isinstance(found, Fresh) else ""
    if old.fate == "alive" and not cohorts.spare(old, heir):
        return f"it replaces {old.id}, which is {privilege(cohorts, old)}"
    if isinstance(found, Fresh):
        if not 0 <= (found.share or 0.0) < math.inf:
            return f"it gives a fresh pod a share of {found.share:g}"
        algorithm = found.algorithm
        if algorithm not in cohorts.algorithms:
            return f"there is no algorithm {algorithm!r}"
    elif found.parent not in cohorts.board.pods:
        return f"there is no pod {found.parent!r} to copy"
    else:
        algorithm = cohorts.board.pods[found.parent].algorithm
    if misfit := cohorts.algorithms[algorithm].misfit(found.hyperparameters):
        return f"{algorithm}: {misfit}"
    try:
        offspring.child("p0000", found)
    except ImpossibleBirth as error:
        return str(error)
    return ""
