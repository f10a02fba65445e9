"""Arguments of the Python functions, read as the keys of a configuration are."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from hpcpod.config.decoder import value_at
from hpcpod.config.scalars import plain
from hpcpod.config.synonyms import meant
from hpcpod.errors import ConfigError

P = ParamSpec("P")
R = TypeVar("R")


def door(**kinds: Any) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Have a function's arguments checked as values of a configuration are.

    Args:
        kinds: types of arguments, by their names. A number may be NumPy's, a text a path or a
            member of an enum: the function gets Python's own. ``Any`` takes what can't be said by
            a type; arguments without one stay as they are.

    Raises:
        ConfigError: by the decorated function: all arguments of another type, or a name that
            other libraries have for one of them.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        signature = inspect.signature(function)

        @functools.wraps(function)
        def checked(*args: P.args, **kwargs: P.kwargs) -> R:
            try:
                bound = signature.bind(*args, **kwargs)
            except TypeError as error:
                problems = _misnamed(list(kwargs), list(signature.parameters))
                if not problems:
                    raise
                raise ConfigError(function.__name__, problems) from error
            problems = []
            for name, value in bound.arguments.items():
                if name in kinds:
                    kind = kinds[name]  # NumPy's scalars ended in tracebacks of train and scale
                    bound.arguments[name] = (
                        plain(value) if kind is Any else value_at(name, kind, value, problems)
                    )
            if problems:
                raise ConfigError(function.__name__, problems)
            return function(*bound.args, **bound.kwargs)

        return checked

    return decorate


def numbers(data: Any) -> Any:
    """Arguments with Python's own numbers in place of NumPy's, at any depth; all else stays."""
    if isinstance(data, dict):
        return {key: numbers(value) for key, value in data.items()}
    if isinstance(data, (list, tuple)):
        return type(data)(map(numbers, data)) if type(data) in (list, tuple) else data
    return data.item() if hasattr(data, "item") and getattr(data, "shape", None) == () else data


def _misnamed(given: list[str], known: list[str]) -> list[str]:
    """Problems of names that the function does not have, where another one is likely meant."""
    near = {name: meant(name, known) for name in given if name not in known}
    return [f"{name}: unknown argument{clause}" for name, clause in near.items() if clause]
