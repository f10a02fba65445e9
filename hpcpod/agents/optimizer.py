"""Adam on all weights of a module as one vector, of which they are views.

Small networks are bound by calls, not by arithmetic: for thirteen tensors of up to 64 x 64 the
clipping of a gradient and a step of torch's Adam took 109 µs on a CPU one by one, as a vector 36.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn
from torch.optim.adam import adam

from hpcpod.envs.vec_env import State

_ALIGNED = 16
"""Numbers: every weight begins at a multiple of 64 bytes, as fast kernels want it."""


def flatten(module: nn.Module) -> Tensor:
    """Lay all weights of a module into one vector; they are its views from now on.

    Returns:
        float32 [weights, each filled up with zeros to a multiple of 16]. What writes into it
        moves the module; moving the module to another device ends that.
    """
    weights = list(module.parameters())
    vector = weights[0].new_zeros(sum(_room(p) for p in weights), requires_grad=False)
    with torch.no_grad():
        for p, view in zip(weights, _views(vector, weights), strict=True):
            view.copy_(p)
            p.data = view
    return vector


def _room(weight: Tensor) -> int:
    return -(-weight.numel() // _ALIGNED) * _ALIGNED


def _views(vector: Tensor, weights: Sequence[Tensor]) -> list[Tensor]:
    parts = vector.split_with_sizes([_room(p) for p in weights])
    return [v[: p.numel()].view_as(p) for v, p in zip(parts, weights, strict=True)]


class Adam:
    """Adam (Kingma and Ba 2015, arXiv:1412.6980) on all weights of one module.

    ``backward``, ``clip`` and ``step``, in this order. On a GPU all three may be captured, and the
    step size is a tensor that a captured step reads.
    """

    def __init__(self, module: nn.Module, learning_rate: float, eps: float = 1e-8) -> None:
        """Flatten the module, which must be on its device already and have weights."""
        weights = dict(module.named_parameters())
        if not weights:
            raise ValueError(f"Adam moves weights, but a {type(module).__name__} has none")
        self._learned = [p for p in weights.values() if p.requires_grad]
        self._places = {id(p): place for place, p in enumerate(self._learned)}
        self.vector = flatten(module)
        """The weights, float32 [size]; see ``flatten``."""
        self._gradient = torch.zeros_like(self.vector)
        each = list(weights.values())
        views = zip(_views(self._gradient, each), each, strict=True)
        self._gradients = [view for view, p in views if p.requires_grad]
        moments = {name: torch.zeros_like(self.vector) for name in ("exp_avg", "exp_avg_sq")}
        self._mean, self._square = moments.values()
        self._vectors = [self._gradient, *moments.values()]
        self._moments = {
            f"{moment}/{name}": view
            for moment, vector in moments.items()
            for name, view in zip(weights, _views(vector, each), strict=True)
        }
        device = self.vector.device
        self._on_gpu = device.type == "cuda"
        self._rate = torch.tensor(learning_rate, device=device) if self._on_gpu else learning_rate
        self._eps = eps
        self.exchange: Callable[[Tensor], None] | None = None
        """Change of each gradient in place before it is clipped: other replicas' may come in."""
        self._step = torch.zeros((), device=device)

    @property
    def learning_rate(self) -> float:
        """Step size."""
        return float(self._rate)

    @learning_rate.setter
    def learning_rate(self, value: float) -> None:
        """Change it; a captured step reads it, too."""
        if isinstance(self._rate, Tensor):
            self._rate.fill_(value)
        else:
            self._rate = value

    @property
    def gradient_norm(self) -> float:
        """Euclidean norm of the gradient of the last step, as it was clipped."""
        return float(torch.linalg.vector_norm(self._gradient))

    def backward(self, *slopes: tuple[Tensor, Tensor | None]) -> None:
        """Compute the gradient of a loss in these weights, and in no other ones.

        Args:
            slopes: what the loss is computed from, weights themselves among it, and its
                derivatives by each of these; for the loss itself, a scalar, None. Weights that it
                does not depend on stay.
        """
        known: dict[int, Tensor] = {}
        through = []
        for tensor, slope in slopes:
            place = self._places.get(id(tensor))
            if place is None or slope is None:
                through.append((tensor, slope))
            else:
                known[place] = slope
        if through or len(known) < len(self._learned):
            known = self._completed(known, through)
        self.take([known[place] for place in range(len(self._learned))])

    def _completed(
        self, known: dict[int, Tensor], through: list[tuple[Tensor, Tensor | None]]
    ) -> dict[int, Tensor]:
        """What is known of a gradient, and what autograd finds."""
        rest: Sequence[Tensor]
        if through:
            outputs, by_outputs = zip(*through, strict=True)
            rest = torch.autograd.grad(outputs, self._learned, by_outputs, materialize_grads=True)
        else:
            rest = [torch.zeros_like(p) for p in self._learned]
        return {i: known[i] + r if i in known else r for i, r in enumerate(rest)}

    def take(self, gradients: tuple[Tensor, ...] | list[Tensor]) -> None:
        """Take a gradient that is known: a tensor for each weight that may learn, in order."""
        torch._foreach_copy_(self._gradients, gradients)
        if self.exchange is not None:
            self.exchange(self._gradient)

    def clip(self, max_norm: float) -> Tensor:
        """Scale the gradient down to this Euclidean norm; returns what it was, a scalar."""
        norm: Tensor = torch.linalg.vector_norm(self._gradient)
        self._gradient.mul_((max_norm / (norm + 1e-6)).clamp_(max=1.0))
        return norm

    def step(self) -> None:
        """Move the weights.

        By torch's function and not its optimizer, which imports torch.compile's machinery: 1.3 s
        at the start of every process.
        """
        adam(
            [self.vector], [self._gradient], [self._mean], [self._square], [], [self._step],
            # On a CPU, torch 2.13: fused 91 µs a step, foreach 228, neither 249.
            fused=True, capturable=self._on_gpu, amsgrad=False, beta1=0.9, beta2=0.999,
            lr=self._rate, weight_decay=0.0, eps=self._eps, maximize=False,
        )  # fmt: skip

    def state(self) -> State:
        """A copy of both moments of each weight by its name, and the step count."""
        step = self._step.detach().cpu().to(torch.int64)
        return {"step": step, **{name: view.clone() for name, view in self._moments.items()}}

    def load(self, state: State) -> None:
        """Take a ``state()`` over, in place; the learning rate stays the optimizer's own."""
        # What lies between the weights counts in the norm: NaN there would outlive this.
        for vector in self._vectors:
            vector.zero_()
        self._step.copy_(state["step"])
        for name, view in self._moments.items():
            view.copy_(state[name])
