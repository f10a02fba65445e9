"""``Backend``: the base of hpcpod's own backends, and ``Wanted``: the batch that is wanted."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from torch import Tensor

from hpcpod.envs.vec_env import (
    EnvSpec,
    State,
    check_action_shape,
    check_batch,
    check_state_size,
)
from hpcpod.errors import UnusableWrapper

if TYPE_CHECKING:
    from hpcpod.envs.gymnasium_make import Wrapper


@dataclass(frozen=True)
class Wanted:
    """The batch that is wanted, in the words of ``make_env``."""

    env: Any
    """A gymnasium id, a path ``"pkg.mod:EnvClass"``, or what returns the environment."""
    num_envs: int
    """Environments of the batch: N."""
    device: str = "cpu"
    """Device of the tensors."""
    wrappers: Sequence[Wrapper] = ()
    """gymnasium wrappers, innermost first: ``"pkg.mod:Wrapper"`` or ``{"pkg.mod:Wrapper": {}}``."""
    kwargs: Mapping[str, object] = field(default_factory=dict)
    """Arguments of the environment itself."""
    backend: str = "auto"
    """Name of the group ``hpcpod.envs``, or the path of a class."""


@contextmanager
def closed_if_refused(made: Sequence[Any]) -> Iterator[None]:
    """Close environments and evaluators if something is raised here; what that raises is left."""
    try:
        yield
    except BaseException:
        for each in made:
            with suppress(Exception):
                each.close()
        raise


class Backend(ABC):
    """N environments by one simulator, made as ``make_env`` makes any backend.

    A subclass makes them in ``_make``; the other methods are those of ``VecEnv``. Here are the ones
    of a simulator whose state can't be saved, and that holds nothing.
    """

    no_wrappers: ClassVar[str] = ""
    """Refusal of wrappers, with ``{env}`` for the environment's name; empty: they are taken."""
    no_state: ClassVar[str] = "gives no state to go on from"
    """Reason that it has no ``state``, after the environment's name."""

    def __init__(
        self,
        env: Any,
        num_envs: int = 1,
        device: str = "cpu",
        wrappers: Sequence[Wrapper] = (),
        kwargs: Mapping[str, object] | None = None,
    ) -> None:
        """Make the environments; the arguments are those of ``Wanted``.

        Raises:
            UserError: it can't be made so, or nothing can live on the device.
            UnsupportedSpace: it has a space that agents can't use.
            UnusableWrapper: a wrapper can't be put around it.
        """
        check_batch(num_envs, device)
        if wrappers and self.no_wrappers:
            raise UnusableWrapper(self.no_wrappers.format(env=env))
        self.spec = self._make(Wanted(env, num_envs, device, wrappers, dict(kwargs or {})))

    @abstractmethod
    def _make(self, wanted: Wanted) -> EnvSpec:
        """Make the environments; their spec."""

    def _check_step(self, begun: object, action: Tensor) -> None:
        """See that an episode has begun, and that there is one action for each environment."""
        if not begun:
            raise RuntimeError("call reset() before step()")
        check_action_shape(action, self.spec)

    def state(self) -> State | None:
        """None: the state can't be saved."""
        return None

    def restore(self, state: State) -> Tensor | None:
        """There is no ``state`` to go on from."""
        raise ValueError(f"{self.spec.id} {self.no_state}")

    def close(self) -> None:  # noqa: B027 (most hold nothing)
        """Nothing is held beyond this object's own memory."""


class TensorBackend(Backend):
    """A backend whose whole state is one ``NamedTuple`` of tensors, ``_batch``."""

    _kind: ClassVar[Any]
    _batch: Any = None

    def state(self) -> State | None:
        """All of the tensors; None before the first reset."""
        if self._batch is None:
            return None
        return {name: tensor.clone() for name, tensor in self._batch._asdict().items()}

    def restore(self, state: State) -> None:
        """Go on from a ``state()`` of an environment made with the same arguments."""
        check_state_size(state, self.spec)
        device = self.spec.device
        fields = self._kind._fields
        self._batch = self._kind(*(state[name].to(device, copy=True) for name in fields))
