"""The tasks that reward moving forward: gymnasium's runners, walkers and the swimmer."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

from hpcpod.envs.mujoco.task import Fields, NoisyTask, body

Range = tuple[float, float]


@dataclass(frozen=True, kw_only=True)
class _Runner(NoisyTask):
    """Reward = forward_reward_weight · v_x - ctrl_cost_weight · |action|²."""

    hidden: ClassVar[int] = 1
    """Coordinates of the root that the policy does not see."""

    forward_reward_weight: float = 1.0
    ctrl_cost_weight: float = 0.1
    exclude_current_positions_from_observation: bool = True

    def observation(self, fields: Fields) -> Any:
        return self.joined(self._positions(fields), fields["qvel"])

    def _positions(self, fields: Fields) -> Any:
        hidden = self.hidden if self.exclude_current_positions_from_observation else 0
        return fields["qpos"][:, hidden:]

    def outcome(self, fields: Fields, action: Any, velocity: Any) -> tuple[Any, Any]:
        reward = self.forward_reward_weight * velocity - self._cost(fields, action)
        return reward, self.xp.zeros_like(velocity) > 0

    def _cost(self, fields: Fields, action: Any) -> Any:
        # MuJoCo clamps ctrl itself; v5 takes the cost of the action as it was given.
        return self.ctrl_cost_weight * self.xp.square(action).sum(1)


@dataclass(frozen=True, kw_only=True)
class _Walker(_Runner):
    """A runner that is paid for being healthy, and whose episode may end when it is not."""

    healthy_reward: float = 1.0
    terminate_when_unhealthy: bool = True

    def _healthy(self, fields: Fields) -> Any:
        """bool [N]."""
        raise NotImplementedError

    def outcome(self, fields: Fields, action: Any, velocity: Any) -> tuple[Any, Any]:
        healthy = self._healthy(fields)
        gain = self.forward_reward_weight * velocity + healthy * self.healthy_reward
        return gain - self._cost(fields, action), ~healthy & self.terminate_when_unhealthy


@dataclass(frozen=True, kw_only=True)
class HalfCheetah(_Runner):
    """A planar cheetah; its episodes end by time alone."""

    model_file = "half_cheetah.xml"
    normal_velocities = True


@dataclass(frozen=True, kw_only=True)
class Swimmer(_Runner):
    """A planar snake in a viscous fluid; its episodes end by time alone."""

    model_file = "swimmer.xml"
    hidden = 2

    frame_skip: int = 4
    ctrl_cost_weight: float = 1e-4


@dataclass(frozen=True, kw_only=True)
class _PlanarWalker(_Walker):
    """The hopper or the walker: velocities are cut at ±10."""

    frame_skip: int = 4
    ctrl_cost_weight: float = 1e-3
    reset_noise_scale: float = 5e-3

    def observation(self, fields: Fields) -> Any:
        return self.joined(self._positions(fields), fields["qvel"].clip(-10, 10))


@dataclass(frozen=True, kw_only=True)
class Hopper(_PlanarWalker):
    """One leg; healthy while it is upright and its state within bounds."""

    model_file = "hopper.xml"

    healthy_state_range: Range = (-100.0, 100.0)
    healthy_z_range: Range = (0.7, float("inf"))  # m
    healthy_angle_range: Range = (-0.2, 0.2)  # rad

    def _healthy(self, fields: Fields) -> Any:
        qpos = fields["qpos"]
        rest = self.joined(qpos[:, 2:], fields["qvel"])
        return (
            _between(rest, self.healthy_state_range).all(1)
            & _between(qpos[:, 1], self.healthy_z_range)
            & _between(qpos[:, 2], self.healthy_angle_range)
        )


@dataclass(frozen=True, kw_only=True)
class Walker2d(_PlanarWalker):
    """Two legs; healthy while it is upright."""

    model_file = "walker2d_v5.xml"

    healthy_z_range: Range = (0.8, 2.0)  # m
    healthy_angle_range: Range = (-1.0, 1.0)  # rad

    def _healthy(self, fields: Fields) -> Any:
        qpos = fields["qpos"]
        upright = _between(qpos[:, 2], self.healthy_angle_range)
        return _between(qpos[:, 1], self.healthy_z_range) & upright


@dataclass(frozen=True, kw_only=True)
class Ant(_Walker):
    """Four legs. Its v_x is that of a body, read at the integrator's last stage."""

    model_file = "ant.xml"
    reads = ("qpos", "qvel", "xpos", "cfrc_ext")
    contact_forces = True
    normal_velocities = True
    hidden = 2

    ctrl_cost_weight: float = 0.5
    contact_cost_weight: float = 5e-4
    main_body: int | str = 1
    healthy_z_range: Range = (0.2, 1.0)  # m
    contact_force_range: Range = (-1.0, 1.0)
    include_cfrc_ext_in_observation: bool = True

    def __post_init__(self) -> None:
        body(self.model, self.main_body)  # else the first reset would find that there is none

    @cached_property
    def _body(self) -> int:
        return body(self.model, self.main_body)

    def place(self, fields: Fields) -> Any:
        """Of ``main_body``."""
        return fields["xpos"][:, self._body, 0]

    def observation(self, fields: Fields) -> Any:
        """Positions, velocities, and the clipped forces on every body but the world."""
        parts = [self._positions(fields), fields["qvel"]]
        if self.include_cfrc_ext_in_observation:
            parts.append(self._forces(fields)[:, 1:])
        return self.joined(*parts)

    def _cost(self, fields: Fields, action: Any) -> Any:
        forces = self.joined(self._forces(fields))
        contact = self.contact_cost_weight * self.xp.square(forces).sum(1)
        return super()._cost(fields, action) + contact

    def _healthy(self, fields: Fields) -> Any:
        z, (low, high) = fields["qpos"][:, 2], self.healthy_z_range
        finite = self.xp.isfinite(self.joined(fields["qpos"], fields["qvel"])).all(1)
        return finite & (z >= low) & (z <= high)

    def _forces(self, fields: Fields) -> Any:
        return fields["cfrc_ext"].clip(*self.contact_force_range)


@dataclass(frozen=True, kw_only=True)
class Humanoid(_Walker):
    """Two legs and arms. Its v_x is that of its mass, read at the integrator's last stage."""

    model_file = "humanoid.xml"
    reads = ("qpos", "qvel", "ctrl", "xipos", "cinert", "cvel", "qfrc_actuator", "cfrc_ext")
    contact_forces = True
    hidden = 2

    forward_reward_weight: float = 1.25
    contact_cost_weight: float = 5e-7
    contact_cost_range: Range = (-float("inf"), 10.0)  # forces changed by up to 3.7e3 in a step
    healthy_reward: float = 5.0
    healthy_z_range: Range = (1.0, 2.0)  # m
    reset_noise_scale: float = 1e-2
    include_cinert_in_observation: bool = True
    include_cvel_in_observation: bool = True
    include_qfrc_actuator_in_observation: bool = True
    include_cfrc_ext_in_observation: bool = True

    def place(self, fields: Fields) -> Any:
        """Of the centre of mass."""
        masses = self.xp.asarray(self.model.body_mass)
        return (fields["xipos"][:, :, 0] * masses).sum(1) / masses.sum()

    def observation(self, fields: Fields) -> Any:
        """Positions, velocities; inertia, velocity and force of each body but the world."""
        parts = [self._positions(fields), fields["qvel"]]
        # The first body is the world; the first six forces are on the root, which has no actuator.
        begins = {"cinert": 1, "cvel": 1, "qfrc_actuator": 6, "cfrc_ext": 1}
        parts += [
            fields[name][:, begin:]
            for name, begin in begins.items()
            if getattr(self, f"include_{name}_in_observation")
        ]
        return self.joined(*parts)

    def _cost(self, fields: Fields, action: Any) -> Any:
        forces = self.joined(fields["cfrc_ext"])
        contact = self.contact_cost_weight * self.xp.square(forces).sum(1)
        # The control in float64, as gymnasium takes it here and only here.
        return super()._cost(fields, fields["ctrl"]) + contact.clip(*self.contact_cost_range)

    def _healthy(self, fields: Fields) -> Any:
        return _between(fields["qpos"][:, 2], self.healthy_z_range)


def _between(values: Any, limits: Range) -> Any:
    return (values > limits[0]) & (values < limits[1])
