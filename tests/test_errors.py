"""The tree of errors, and words for exceptions."""

from __future__ import annotations

import inspect
import re

import pytest

from hpcpod import errors
from hpcpod.errors import ConfigError, Corrupt, HpcpodError, RunNotFound, UserError


def test_the_tree_in_the_docstring_is_the_tree_of_the_classes() -> None:
    drawn: dict[str, str] = {}
    above: list[str] = []
    for line in (errors.__doc__ or "").splitlines():
        found = re.match(r"([ │├└─]*)([A-Z]\w+)(?:\s|$)", line.removeprefix("    "))
        if found and hasattr(errors, found[2]):
            depth = len(found[1]) // 4
            del above[depth:]
            drawn[found[2]] = above[-1] if above else "Exception"
            above.append(found[2])
    built = {
        name: cls.__base__.__name__
        for name, cls in inspect.getmembers(errors, inspect.isclass)
        if issubclass(cls, Exception) and cls.__module__ == errors.__name__ and cls.__base__
    }
    assert drawn == built


def test_a_config_error_says_every_problem_on_a_line_of_its_own() -> None:
    error = ConfigError("run.yaml", ["a: wrong", "b: worse"])
    assert str(error) == "run.yaml has 2 problems\n  a: wrong\n  b: worse"
    assert str(ConfigError("run.yaml", ["a: wrong"])) == "run.yaml has 1 problem\n  a: wrong"
    assert (error.source, error.problems) == ("run.yaml", ["a: wrong", "b: worse"])


@pytest.mark.parametrize(
    ("error", "code"), [(RunNotFound("no run there"), 2), (Corrupt("bad sum"), 1)]
)
def test_an_error_raised_on_purpose_is_a_message_and_an_exit_code(
    error: HpcpodError, code: int
) -> None:
    said: list[str] = []

    def work() -> int:
        raise error

    assert errors.exit_code(work, said.append) == code
    assert said == [str(error)]


def test_work_that_is_done_says_its_own_exit_code() -> None:
    said: list[str] = []
    assert errors.exit_code(lambda: 75, said.append) == 75
    assert said == []


def test_an_error_that_nobody_meant_keeps_its_traceback() -> None:
    with pytest.raises(ZeroDivisionError):
        errors.exit_code(lambda: 1 // 0, lambda _: None)


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (KeyError("x"), "KeyError: 'x'"),
        (RuntimeError("two\n  lines"), "RuntimeError: two lines"),
        (MemoryError(), "MemoryError"),
        (RuntimeError("says: "), "RuntimeError: says"),
    ],
)
def test_an_exception_of_somebody_else_s_is_one_line(error: Exception, words: str) -> None:
    assert errors.in_words(error) == words


def test_memory_runs_out_in_many_words() -> None:
    for error in (
        MemoryError(),
        RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 4 bytes"),
        RuntimeError("CUDA out of memory."),
        UserError("ppo can't be made: MemoryError"),
    ):
        assert errors.out_of_memory(error)
    assert not errors.out_of_memory(RuntimeError("the simulator remembers nothing"))


def test_a_users_mistake_is_told_from_a_broken_promise() -> None:
    assert issubclass(ConfigError, UserError)
    assert not issubclass(Corrupt, UserError)
