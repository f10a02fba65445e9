"""Ray Tune's population-based training of trials that sleep, as a process of its own."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import numpy as np
from ray import tune

from overheads.ray_pbt import measure

NUMBERS = 500_000
"""Of a checkpoint: 2 MB, as float32."""


class Training(tune.Trainable):  # type: ignore[misc]
    """A trial whose step takes a fixed time, with a checkpoint of the same size."""

    def setup(self, config: dict[str, Any]) -> None:
        """Load what a training needs."""
        import torch  # noqa: F401 (as an agent does)

        self._log = Path(config["log"])
        self._weights = np.zeros(NUMBERS, np.float32)
        self._copied = False

    def step(self) -> dict[str, Any]:
        """Work, and note when."""
        began = time.time()
        time.sleep(0.3)
        copied, self._copied = self._copied, False
        with self._log.open("a") as file:
            print(json.dumps([began, time.time(), copied]), file=file)
        return {"score": float(np.random.default_rng().normal())}

    def save_checkpoint(self, checkpoint_dir: str) -> None:
        """Write the weights and the trial that they are of."""
        np.save(Path(checkpoint_dir, "weights.npy"), self._weights)
        Path(checkpoint_dir, "of.txt").write_text(self.trial_id)

    def load_checkpoint(self, checkpoint_dir: str) -> None:
        """Read them: those of another trial are a copy."""
        self._weights = np.load(Path(checkpoint_dir, "weights.npy"))
        self._copied = Path(checkpoint_dir, "of.txt").read_text() != self.trial_id

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        """Become another trial."""
        self.config = new_config
        return True


if __name__ == "__main__":
    measure(Training)
