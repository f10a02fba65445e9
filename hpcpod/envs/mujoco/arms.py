"""The tasks in which an arm reaches for something; their episodes end by time alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hpcpod.envs.mujoco.initial_states import Draws
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

    def _length(self, vectors: Any) -> Any:
        return self.xp.linalg.norm(vectors, axis=-1)


@dataclass(frozen=True, kw_only=True)
class Reacher(_Arm):
    """Two joints in a plane: the fingertip to the target."""

    model_file = "reacher.xml"

    frame_skip: int = 2

    def first_state(self, draws: Draws) -> tuple[Any, Any]:
        """Noise on the arm; the target uniform in a disc of 0.2 m, at rest."""
        model = self.model
        qpos = draws.uniform(-0.1, 0.1, model.nq) + model.qpos0  # rad
        qpos[..., -2:] = draws.uniform_where(
            (-0.2, -0.2), (0.2, 0.2), lambda goal: self._length(goal) < 0.2
        )
        qvel = draws.uniform(-0.005, 0.005, model.nv)  # rad/s
        qvel[..., -2:] = 0
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
        return self._length(missing) * self.reward_dist_weight


@dataclass(frozen=True, kw_only=True)
class Pusher(_Arm):
    """Seven joints: the arm's tips to the object, and the object to the goal."""

    model_file = "pusher_v5.xml"

    reward_near_weight: float = 0.5
    reward_control_weight: float = 0.1

    def first_state(self, draws: Draws) -> tuple[Any, Any]:
        """The object anywhere in a rectangle but within 0.17 m of the goal."""
        qpos = draws.each(self.model.qpos0)
        qpos[..., -4:-2] = draws.uniform_where(
            (-0.3, -0.2), (0.0, 0.2), lambda place: self._length(place) > 0.17
        )
        qpos[..., -2:] = 0
        qvel = draws.uniform(-0.005, 0.005, self.model.nv)
        qvel[..., -4:] = 0
        return qpos, qvel

    def observation(self, fields: Fields) -> Any:
        """The joints, their velocities, and where tips, object and goal are."""
        return self.joined(
            fields["qpos"][:, :7],
            fields["qvel"][:, :7],
            *(self._at(fields, name) for name in ("tips_arm", "object", "goal")),
        )

    def _distance(self, fields: Fields) -> Any:
        near = self._length(self._between(fields, "object", "tips_arm"))
        far = self._length(self._between(fields, "object", "goal"))
        return far * self.reward_dist_weight + near * self.reward_near_weight
