"""The tasks that reward balancing a pole, or two, on a cart."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hpcpod.envs.mujoco.task import Fields, NoisyTask


@dataclass(frozen=True, kw_only=True)
class InvertedPendulum(NoisyTask):
    """One pole; it has fallen beyond 0.2 rad."""

    model_file = "inverted_pendulum.xml"

    frame_skip: int = 2
    reset_noise_scale: float = 0.01

    def observation(self, fields: Fields) -> Any:
        """Positions and velocities."""
        return self.joined(fields["qpos"], fields["qvel"])

    def outcome(self, fields: Fields, action: Any, velocity: Any) -> tuple[Any, Any]:
        """Reward = 1 while it stands."""
        finite = self.xp.isfinite(self.observation(fields)).all(1)
        fallen = ~finite | (abs(fields["qpos"][:, 1]) > 0.2)  # rad
        return 1.0 - fallen * 1.0, fallen


@dataclass(frozen=True, kw_only=True)
class InvertedDoublePendulum(NoisyTask):
    """A pole on a pole; they have fallen when the tip is at 1 m or lower."""

    model_file = "inverted_double_pendulum.xml"
    reads = ("qpos", "qvel", "qfrc_constraint", "site_xpos")
    normal_velocities = True

    healthy_reward: float = 10.0

    def observation(self, fields: Fields) -> Any:
        """The cart's place, sines and cosines of the angles, velocities, force on the cart."""
        qpos = fields["qpos"]
        return self.joined(
            qpos[:, :1],
            self.xp.sin(qpos[:, 1:]),
            self.xp.cos(qpos[:, 1:]),
            fields["qvel"].clip(-10, 10),
            fields["qfrc_constraint"].clip(-10, 10)[:, :1],
        )

    def outcome(self, fields: Fields, action: Any, velocity: Any) -> tuple[Any, Any]:
        """Reward = healthy_reward - 0.01 x² - (y - 2)² - 0.001 ω₁² - 0.005 ω₂², (x, y) the tip."""
        x, y = fields["site_xpos"][:, 0, 0], fields["site_xpos"][:, 0, 2]
        fallen = y <= 1  # m
        distance = 0.01 * x**2 + (y - 2) ** 2
        speed = 1e-3 * fields["qvel"][:, 1] ** 2 + 5e-3 * fields["qvel"][:, 2] ** 2
        return ~fallen * self.healthy_reward - distance - speed, fallen
