"""A group of one by each backend of torch's: with one GPU, that is all of NCCL that can run."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
import torch

ONE = """
import json, sys
from torch.distributed import HashStore
from hpcpod.pod.device import own_device
from hpcpod.pod.ranks.distributed import Distributed
from hpcpod.pod.ranks.rank import Rank
from tests.pod.ranks.work import fused_alone
backend, device = sys.argv[1:]
own = own_device(Rank(), device)
group = Distributed(Rank(), HashStore(), backend, own, 20.0)
print(json.dumps(fused_alone(group, own)))
group.close()
"""
NO_GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")


@pytest.mark.parametrize(
    ("backend", "device"),
    [("gloo", "cpu"), pytest.param("nccl", "cuda", marks=[pytest.mark.gpu, NO_GPU])],
)
def test_a_group_of_one_fuses_to_what_it_was(backend: str, device: str) -> None:
    words = [sys.executable, "-c", ONE, backend, device]
    done = subprocess.run(words, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    said, by, far, learned = json.loads(done.stdout.splitlines()[-1])
    assert (said, by) == (["here"], backend)
    assert learned and far < 1e-6
