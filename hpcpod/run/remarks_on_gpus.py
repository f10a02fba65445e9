"""Remarks on GPUs that a run asks for and is likely to leave idle."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from hpcpod.config.schema import RunConfig
from hpcpod.run.text import size

if TYPE_CHECKING:
    from hpcpod.pod.trial.fit import Look

SMALL = 8e6
"""Bytes of weights with their moments below which a network is small: 0.7 million weights."""

_ON_CORES = ("auto", "gymnasium", "mujoco", "envpool")
"""Backends that step environments on cores, while the GPU waits for the next batch."""


def on_gpus(config: RunConfig, look: Look | None) -> Iterator[str]:
    """GPUs that nothing trains on, and a whole one for a pod of small networks whose environments
    are stepped on cores.

    Of the latter nothing is said where the task was not tried: a small checkpoint is the only sign.
    """
    resources = config.resources
    if resources.gpu_type is not None and not resources.gpus_per_pod:
        yield (
            "resources.gpu_type: pods get no GPU, since resources.gpus_per_pod is 0; set that to 1,"
            " or gpu_type to null"
        )
    if resources.gpus_per_pod and config.pod.device == "cpu" and config.program is None:
        yield (
            "resources.gpus_per_pod: a pod takes GPUs and trains on cores, since pod.device is cpu;"
            " set that to auto, or gpus_per_pod to 0"
        )
    if not resources.gpus_per_pod or resources.pods_per_gpu > 1 or look is None:
        return
    if config.env.backend not in _ON_CORES or config.pod.device == "cpu":
        return
    sizes = [footprint.core for footprint in look.footprints.values()]
    if not sizes or max(sizes) >= SMALL:
        return
    several = resources.gpus_per_pod > 1
    one = " with gpus_per_pod: 1" if several else ""
    yield (
        f"resources.gpus_per_pod: each pod gets {resources.gpus_per_pod} GPU{'s' * several} of its"
        f" own, its networks are small ({size(max(sizes))} with their moments) and its environments"
        " are stepped on cores, so most of a GPU is likely to be idle, and some sites cancel such"
        f" jobs; have pods share one (resources.pods_per_gpu: 4{one}), or train on cores"
        " (gpus_per_pod: 0)"
    )
