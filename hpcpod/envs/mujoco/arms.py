"""The tasks in which an arm reaches for something; their episodes end by time alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from hpcpod.envs.mujoco.task import Fields, Task, body


@dataclass(frozen=True, kw_only=True)
class _Arm(Task):
    reads = ("qpos", "qvel", "xpos")

    reward_dist_weight: float = 1.0
    reward_control_weight: float = 1.0

    def outcome(self, fields: Fields, action: Any, velocity: Any) -> tuple[Any, Any]:
        effort = self.reward_control_weight * self.xp.square(action).sum(1)
        return -self._distance(fields) - effort, self.xp.zeros_like(velocity) > 0

    def _distance(self, fields: Fields) -> Any:
        """Weighted, [N]."""
        raise NotImplementedError

    def _between(self, fields: Fields, to: str, origin: str) -> Any:
        """The vector from one body to another, [N, 3]."""
        return self._at(fields, to) - self._at(fields, origin)

    def _at(self, fields: Fields, name: str) -> Any:
        return fields["xpos"][:, body(self.model, name)]


@dataclass(frozen=True, kw_only=True)
class Reacher(_Arm):
    """Two joints in a plane: the fingertip to the target."""

    model_file = "reacher.xml"

    frame_skip: int = 2

    def first_state(self, rng: np.random.Generator) -> tuple[Any, Any]:
        """Noise on the arm; the target uniform in a disc of 0.2 m, at rest."""
        model = self.model
        qpos = rng.uniform(low=-0.1, high=0.1, size=model.nq) + model.qpos0
        while True:
            goal = rng.uniform(low=-0.2, high=0.2, size=2)
            if np.linalg.norm(goal) < 0.2:
                break
        qpos[-2:] = goal
        qvel = rng.uniform(low=-0.005, high=0.005, size=model.nv)
        qvel[-2:] = 0
        return qpos, qvel

    def observation(self, fields: Fields) -> Any:
        """Cosines and sines of the joints, the target, their velocities, what is missing."""
        angles = fields["qpos"][:, :2]
        return self.joined(
            self.xp.cos(angles),
            self.xp.sin(angles),
            fields["qpos"][:, 2:],
            fields["qvel"][:, :2],
            self._between(fields, "fingertip", "target")[:, :2],
        )

    def _distance(self, fields: Fields) -> Any:
        missing = self._between(fields, "fingertip", "target")
        return self.xp.linalg.norm(missing, axis=1) * self.reward_dist_weight


@dataclass(frozen=True, kw_only=True)
class Pusher(_Arm):
    """Seven joints: the arm's tips to the object, and the object to the goal."""

    model_file = "pusher_v5.xml"

    reward_near_weight: float = 0.5
    reward_control_weight: float = 0.1

    def first_state(self, rng: np.random.Generator) -> tuple[Any, Any]:
        """The object anywhere in a rectangle but within 0.17 m of the goal."""
        qpos = self.model.qpos0.copy()
        while True:
            x = rng.uniform(low=-0.3, high=0, size=1)
            y = rng.uniform(low=-0.2, high=0.2, size=1)
            if np.linalg.norm(place := np.concatenate([x, y])) > 0.17:
                break
        qpos[-4:-2] = place
        qpos[-2:] = 0
        qvel = rng.uniform(low=-0.005, high=0.005, size=self.model.nv)
        qvel[-4:] = 0
        return qpos, qvel

    def observation(self, fields: Fields) -> Any:
        """The joints, their velocities, and where tips, object and goal are."""
        return self.joined(
            fields["qpos"][:, :7],
            fields["qvel"][:, :7],
            *(self._at(fields, name) for name in ("tips_arm", "object", "goal")),
        )

    def _distance(self, fields: Fields) -> Any:
        near = self.xp.linalg.norm(self._between(fields, "object", "tips_arm"), axis=1)
        far = self.xp.linalg.norm(self._between(fields, "object", "goal"), axis=1)
        return far * self.reward_dist_weight + near * self.reward_near_weight
