"""The dynamics of gymnasium's classic control, batched: pure functions of float32 tensors.

Constants, rewards and ends of episodes are gymnasium's (``gymnasium.envs.classic_control``,
version 1.x), and so are the names of arguments and the order of the state. A batch of states is
[variables, N]: a variable of all environments lies in one piece of memory. Nothing here waits for
a device, and the size of nothing depends on a value.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from hpcpod.envs.vec_env import Box, Discrete


class Move(NamedTuple):
    """The result of one step of the dynamics."""

    state: Tensor
    """float32 [variables, N]."""
    reward: Tensor
    """float32 [N]."""
    terminated: Tensor
    """bool [N]."""
    truncated: Tensor | None = None
    """bool [N]: cut before the time limit, where not terminated; None: none is."""


class Dynamics(ABC):
    """One task. The fields of the dataclass are what env.kwargs may have: gymnasium's arguments."""

    @property
    @abstractmethod
    def observation(self) -> Box:
        """Space of one environment's observation."""

    action: ClassVar[Box | Discrete]
    """As the policy sees it."""
    action_bounds: ClassVar[tuple[float, float] | None] = None
    """Low and high that [-1, 1] stands for; None for discrete actions."""
    time_limit: ClassVar[int]
    """Steps after which an episode is truncated."""
    draws: ClassVar[int]
    """Random numbers that begin an episode."""

    @abstractmethod
    def begin(self, uniform: Tensor) -> Tensor:
        """First states, float32 [variables, N], from numbers uniform in [0, 1), [draws, N]."""

    def observe(self, state: Tensor) -> Tensor:
        """Observations of states, [N, *observation], in memory of their own: the states."""
        return state.t().clone(memory_format=torch.contiguous_format)

    @abstractmethod
    def step(self, state: Tensor, action: Tensor) -> Move:
        """The next states; the actions are int64 [N], or float32 [N, 1], clipped to [-1, 1]."""


def _float32(value: float) -> float:
    return float(torch.tensor(value, dtype=torch.float32))


@dataclass(frozen=True)
class CartPole(Dynamics):
    """CartPole-v1: a pole hinged to a cart, state (x, ẋ, θ, θ̇) in m, m/s, rad, rad/s.

    The task of Barto, Sutton & Anderson (1983), "Neuronlike adaptive elements that can solve
    difficult learning control problems", with the equations of R. Florian (2007), "Correct
    equations for the dynamics of the cart-pole system", without friction; Euler's method.
    """

    sutton_barto_reward: bool = False
    """0 for a step and -1 for the fall, instead of 1 for every step."""

    GRAVITY = 9.8  # m/s²
    POLE_MASS = 0.1  # kg
    TOTAL_MASS = 1.1  # kg, with the cart
    HALF_LENGTH = 0.5  # m, of the pole
    FORCE = 10.0  # N
    SECONDS = 0.02
    MOST_X = 2.4  # m
    MOST_ANGLE = 12 * 2 * math.pi / 360  # rad

    _HIGH = (_float32(2 * 2.4), math.inf, _float32(24 * 2 * math.pi / 360), math.inf)
    observation = Box((4,), tuple(-high for high in _HIGH), _HIGH)
    action = Discrete(2)
    time_limit = 500
    draws = 4

    def begin(self, uniform: Tensor) -> Tensor:
        """Every variable uniform in ±0.05."""
        return uniform * 0.1 - 0.05

    def step(self, state: Tensor, action: Tensor) -> Move:
        """Push with 10 N to the left (0) or to the right (1)."""
        x, x_dot, theta, theta_dot = state
        m, length, total = self.POLE_MASS, self.HALF_LENGTH, self.TOTAL_MASS
        push = action * (2 * self.FORCE / total) - self.FORCE / total
        cos, sin = theta.cos(), theta.sin()
        # θ̈ = (g sin θ - a cos θ) / (l (4/3 - m cos² θ / M)),  a = (F + m l θ̇² sin θ) / M
        a = torch.addcmul(push, theta_dot.square(), sin, value=m * length / total)
        inertia = cos.square().mul_(-length * m / total).add_(length * 4 / 3)
        theta_acc = torch.addcmul(sin * self.GRAVITY, cos, a, value=-1.0).div_(inertia)
        # ẍ = a - m l θ̈ cos θ / M
        x_acc = torch.addcmul(a, theta_acc, cos, value=-m * length / total)
        change = torch.stack((x_dot, x_acc, theta_dot, theta_acc))
        state = torch.add(state, change, alpha=self.SECONDS)
        terminated = (state[0].abs() > self.MOST_X) | (state[2].abs() > self.MOST_ANGLE)
        if self.sutton_barto_reward:
            return Move(state, -terminated.float(), terminated)
        return Move(state, torch.ones_like(x), terminated)


@dataclass(frozen=True)
class Pendulum(Dynamics):
    """Pendulum-v1: swing up and hold, state (θ, θ̇) in rad and rad/s, θ = 0 upright.

    gymnasium lets θ grow over the turns; here it is kept in ±π, which is the same motion,
    because float32 would lose digits.
    """

    g: float = 10.0
    """Gravity, m/s²; mass and length are 1."""

    SECONDS = 0.05
    MOST_SPEED = 8.0  # rad/s
    MOST_TORQUE = 2.0  # N m

    observation = Box((3,), (-1.0, -1.0, -8.0), (1.0, 1.0, 8.0))
    action = Box((1,), -1.0, 1.0)
    action_bounds = (-2.0, 2.0)
    time_limit = 200
    draws = 2

    def begin(self, uniform: Tensor) -> Tensor:
        """θ uniform in ±π, θ̇ in ±1."""
        theta, theta_dot = uniform * 2 - 1
        return torch.stack((theta * math.pi, theta_dot))

    def observe(self, state: Tensor) -> Tensor:
        """(cos θ, sin θ, θ̇), [N, 3]."""
        theta, theta_dot = state
        return torch.stack((theta.cos(), theta.sin(), theta_dot), dim=1)

    def step(self, state: Tensor, action: Tensor) -> Move:
        """Turn with a torque u of ±2 N m; the reward is -(θ² + 0.1 θ̇² + 0.001 u²)."""
        theta, theta_dot = state
        u = action[:, 0].clamp(-1, 1) * self.MOST_TORQUE
        reward = theta.square().neg()
        reward = reward.addcmul_(theta_dot, theta_dot, value=-0.1).addcmul_(u, u, value=-0.001)
        # θ̈ = 3 g sin θ / (2 l) + 3 u / (m l²)
        speed = theta_dot.add(theta.sin(), alpha=1.5 * self.g * self.SECONDS)
        speed = speed.add_(u, alpha=3 * self.SECONDS).clamp_(-self.MOST_SPEED, self.MOST_SPEED)
        angle = _wrap(theta.add(speed, alpha=self.SECONDS))
        never = torch.zeros_like(theta, dtype=torch.bool)
        return Move(torch.stack((angle, speed)), reward, never)


def _wrap(angle: Tensor) -> Tensor:
    """The same angle in ±π. An angle that is there already keeps all its digits."""
    turns = (angle * (0.5 / math.pi)).round_()  # float32 has a spacing of 2.4e-7 at π
    return torch.sub(angle, turns, alpha=2 * math.pi)


@dataclass(frozen=True)
class Acrobot(Dynamics):
    """Acrobot-v1: swing the tip over a line, state (θ₁, θ₂, θ̇₁, θ̇₂) in rad and rad/s.

    Two links of length and mass 1, θ₁ = 0 hanging down and θ₂ relative to the first; a torque of
    -1, 0 or 1 N m on the joint between them. Sutton & Barto (1998), "Reinforcement Learning: An
    Introduction", section 11.3, whose equations gymnasium calls "book"; one step of the classical
    Runge-Kutta method.
    """

    GRAVITY = 9.8  # m/s²
    CENTRE = 0.5
    """Of a link's mass, along it, m."""
    INERTIA = 1.0
    """Of a link, kg m²."""
    SECONDS = 0.2
    MOST_SPEEDS = (4 * math.pi, 9 * math.pi)  # rad/s

    _HIGH = (1.0, 1.0, 1.0, 1.0, _float32(4 * math.pi), _float32(9 * math.pi))
    observation = Box((6,), tuple(-high for high in _HIGH), _HIGH)
    action = Discrete(3)
    time_limit = 500
    draws = 4

    def begin(self, uniform: Tensor) -> Tensor:
        """Every variable uniform in ±0.1."""
        return uniform * 0.2 - 0.1

    def observe(self, state: Tensor) -> Tensor:
        """(cos θ₁, sin θ₁, cos θ₂, sin θ₂, θ̇₁, θ̇₂), [N, 6]."""
        angles = state[:2]
        (cos1, cos2), (sin1, sin2) = angles.cos(), angles.sin()
        return torch.stack((cos1, sin1, cos2, sin2, state[2], state[3]), dim=1)

    def step(self, state: Tensor, action: Tensor) -> Move:
        """-1 for a step, 0 for the one after which -cos θ₁ - cos(θ₁ + θ₂) > 1."""
        torque, dt = (action - 1).float(), self.SECONDS
        k1 = self._change(state, torque)
        k2 = self._change(torch.add(state, k1, alpha=dt / 2), torque)
        k3 = self._change(torch.add(state, k2, alpha=dt / 2), torque)
        k4 = self._change(torch.add(state, k3, alpha=dt), torque)
        state = torch.add(state, (k2 + k3).mul_(2).add_(k1).add_(k4), alpha=dt / 6)
        angles, most = _wrap(state[:2]), self.MOST_SPEEDS
        speed1 = state[2].clamp(-most[0], most[0])
        speed2 = state[3].clamp(-most[1], most[1])
        depth = angles[0].cos() + (angles[0] + angles[1]).cos()
        terminated = depth < -1
        reward = terminated.float() - 1
        return Move(torch.stack((angles[0], angles[1], speed1, speed2)), reward, terminated)

    def _change(self, state: Tensor, torque: Tensor) -> Tensor:
        """The state's time derivative, [4, N]."""
        theta1, theta2, dtheta1, dtheta2 = state
        c, g, inertia = self.CENTRE, self.GRAVITY, self.INERTIA
        cos2, sin2 = theta2.cos() * c, theta2.sin() * c
        d1 = cos2 * 2 + (2 * c**2 + 1 + 2 * inertia)
        d2 = cos2 + (c**2 + inertia)
        phi2 = (theta1 + theta2).sin() * (c * g)
        phi1 = torch.add(phi2, theta1.sin(), alpha=(c + 1) * g)
        phi1 = phi1.addcmul_((dtheta1 * 2 + dtheta2) * dtheta2, sin2, value=-1.0)
        share = d2 / d1
        ddtheta2 = torque.addcmul(share, phi1).addcmul_(dtheta1.square(), sin2, value=-1.0)
        ddtheta2 = ddtheta2.sub_(phi2).div_((c**2 + inertia) - share * d2)
        return torch.stack((dtheta1, dtheta2, -(d2 * ddtheta2 + phi1) / d1, ddtheta2))


@dataclass(frozen=True)
class _Mountain(Dynamics):
    """Both cars: state (position, velocity), a valley cos 3x, a flag on the right."""

    goal_velocity: float = 0.0
    """The least at which the flag counts."""

    GOAL: ClassVar[float]
    LEAST_POSITION = -1.2
    MOST_POSITION = 0.6
    MOST_SPEED = 0.07
    GRAVITY = 0.0025

    observation = Box((2,), (_float32(-1.2), _float32(-0.07)), (_float32(0.6), _float32(0.07)))
    draws = 1

    def begin(self, uniform: Tensor) -> Tensor:
        """At rest, the position uniform in [-0.6, -0.4]."""
        position = uniform[0] * 0.2 - 0.6
        return torch.stack((position, torch.zeros_like(position)))

    def _drive(self, state: Tensor, thrust: Tensor) -> tuple[Tensor, Tensor]:
        """The next state, and if it is at the flag; the wall on the left takes all speed."""
        position, velocity = state
        velocity = torch.add(velocity + thrust, (position * 3).cos(), alpha=-self.GRAVITY)
        velocity = velocity.clamp_(-self.MOST_SPEED, self.MOST_SPEED)
        position = (position + velocity).clamp_(self.LEAST_POSITION, self.MOST_POSITION)
        stopped = (position <= self.LEAST_POSITION) & (velocity < 0)
        velocity = velocity.masked_fill(stopped, 0.0)
        arrived = (position >= self.GOAL) & (velocity >= self.goal_velocity)
        return torch.stack((position, velocity)), arrived


@dataclass(frozen=True)
class MountainCar(_Mountain):
    """MountainCar-v0: rock an engine too weak for the slope up to position 0.5.

    A. Moore (1990), "Efficient Memory-based Learning for Robot Control", in the form of Sutton &
    Barto (2018), "Reinforcement Learning: An Introduction", example 10.1.
    """

    GOAL = 0.5
    THRUST = 0.001

    action = Discrete(3)
    time_limit = 200

    def step(self, state: Tensor, action: Tensor) -> Move:
        """Drive to the left (0), not at all (1) or to the right (2); -1 for every step."""
        state, terminated = self._drive(state, (action - 1) * self.THRUST)
        return Move(state, torch.full_like(state[0], -1.0), terminated)


@dataclass(frozen=True)
class MountainCarContinuous(_Mountain):
    """MountainCarContinuous-v0: the same with a throttle, up to position 0.45."""

    GOAL = 0.45
    THRUST = 0.0015

    action = Box((1,), -1.0, 1.0)
    action_bounds = (-1.0, 1.0)
    time_limit = 999

    def step(self, state: Tensor, action: Tensor) -> Move:
        """100 for the flag, and every step costs 0.1 throttle²."""
        throttle = action[:, 0].clamp(-1, 1)
        state, terminated = self._drive(state, throttle * self.THRUST)
        reward = torch.addcmul(terminated * 100.0, throttle, throttle, value=-0.1)
        return Move(state, reward, terminated)
