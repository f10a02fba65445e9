"""Environments in another Python: this file needs numpy and a simulator there, not hpcpod.

Python 3.8 runs it, because Isaac Gym needs that; tests hold it to it. ``remote`` starts it, gives
it a request on standard input, and hands it descriptors: a socket for messages (``wire``), one
eventfd that gives commands, one that says they are done (``pool``), and memory (``memory``).
"""

from __future__ import annotations

import importlib
import json
import mmap
import os
import select
import signal
import socket
import sys
import traceback
from typing import Any

STEP, RESET, SAVE, LOAD, CLOSE = 1, 2, 3, 4, 5  # wire.Command
LENGTH = 16  # wire._LENGTH
ANYTHING = (Exception, SystemExit)  # an environment may raise whatever it likes


class Refused(Exception):
    """A refusal, in a sentence for the process that asked."""


def main(wire: int, go: int, done: int, memory: int) -> None:
    """Serve the process that started this one until the command to close."""
    end_group_with(wire)
    # A scheduler signals every process of a job: the batch is stepped on until it is saved.
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(number, lambda *_: None)
    request = json.load(sys.stdin)
    sys.path += request["path"]
    sys.modules["gym_notices"] = None  # type: ignore[assignment]  # as in plugins.load
    with socket.socket(fileno=wire) as end:
        try:
            batch = make(request)
            send(end, {"spec": batch.described})
        except ANYTHING as error:
            send(end, as_message(error))
            os.read(go, 8)  # an end now would look like a death
            return
        arrays = mapped(memory, receive(end), request)
        serve(batch, arrays, end, go, done)


def serve(batch: Serial, arrays: dict[str, Any], end: socket.socket, go: int, done: int) -> None:
    """Obey commands, until one is to close the environments."""
    while True:
        command = int.from_bytes(os.read(go, 8), sys.byteorder)
        if command == SAVE:
            send(end, {"saved": False})
            continue
        failure = None
        try:
            if command == CLOSE:
                batch.close()
            elif command == RESET:
                batch.reset(arrays)
            else:
                batch.step(arrays)
        except ANYTHING as error:
            failure = as_message(error)
        arrays["failed"][:] = failure is not None
        os.write(done, (1).to_bytes(8, sys.byteorder))
        if command == CLOSE:
            return
        if failure is not None:
            send(end, failure)


class Serial:
    """Environments with gymnasium's interface, or gym's before it, stepped one after another."""

    def __init__(self, envs: list[Any], name: str, limit: int | None = None) -> None:
        """They are alike, and are truncated after ``limit`` steps if they have not ended before."""
        self.envs, self.name, self.limit = envs, name, limit
        self.seeds, self.episodes, self.elapsed = ([each] * len(envs) for each in (0, -1, 0))
        first = envs[0]
        self.described = {
            "observation": described(first.observation_space),
            "action": described(first.action_space),
            "max_episode_steps": min(filter(None, [limit, time_limit_of(first)]), default=None),
            "engine": engine_of(first),
            "seeded": True,
        }

    def reset(self, arrays: dict[str, Any]) -> None:
        """Begin an episode everywhere, on the seeds."""
        self.seeds = [int(seed) for seed in arrays["seeds"]]
        self.episodes = [-1] * len(self.envs)
        for i in range(len(self.envs)):
            self.begin(i, arrays["obs"])

    def step(self, arrays: dict[str, Any]) -> None:
        """Step every environment; where an episode ends ``next_obs`` is its last observation."""
        obs, action = arrays["obs"], arrays["action"].copy()
        for i, env in enumerate(self.envs):
            answer = env.step(action[i])
            try:
                first, arrays["reward"][i], terminated, truncated = outcome(answer)
                put(first, obs, i)
            except (TypeError, ValueError) as error:
                raise self.unlike("step", "reward, terminated, truncated, info", obs) from error
            self.elapsed[i] += 1
            truncated = truncated or self.elapsed[i] == self.limit
            arrays["terminated"][i] = terminated
            arrays["truncated"][i] = truncated and not terminated
            if terminated or truncated:
                arrays["next_obs"][i] = obs[i]
                self.begin(i, obs)
        arrays["valid"][:] = True

    def begin(self, i: int, obs: Any) -> None:
        """The next episode of an environment, its first observation into ``obs``."""
        self.episodes[i], self.elapsed[i] = self.episodes[i] + 1, 0
        seed, env = successor(self.seeds[i], self.episodes[i]), self.envs[i]
        old = hasattr(env, "seed") and not hasattr(env, "np_random_seed")  # gym before 0.26
        if old:
            env.seed(seed)
        answer = env.reset() if old else env.reset(seed=seed)
        try:
            put(answer if old else first_of_two(answer), obs, i)
        except (TypeError, ValueError) as error:
            raise self.unlike("reset", "info", obs) from error

    def unlike(self, method: str, rest: str, obs: Any) -> Refused:
        """The error to raise about an environment that returns something else."""
        return Refused(
            f"{self.name} does not keep the API of gymnasium: its {method}() must return"
            f" (observation, {rest}) with an observation of shape {obs.shape[1:]}"
        )

    def close(self) -> None:
        """Close every environment."""
        for env in self.envs:
            env.close()


def put(observation: Any, obs: Any, i: int) -> None:
    """Write an observation into its row. A shape that numpy would stretch is wrong, too."""
    shape = getattr(observation, "shape", None)
    if shape is not None and shape != obs.shape[1:]:
        raise ValueError(f"its shape is {shape}")
    obs[i] = observation


class VecTask:
    """A task of IsaacGymEnvs 1.5 (Makoviychuk et al. 2021, arXiv:2108.10470).

    Its ``step`` applies the actions and simulates, resets what had ended *before*, then computes
    observations and rewards. So an end shows its true last observation, and the next row is a
    dummy: its action went with the old episode, its reward is for the new one's first state.
    ``extras["time_outs"]`` says which ends are the time limit's. A task may be of numpy's arrays.
    """

    def __init__(self, task: Any, num_envs: int) -> None:
        self.task = task
        self.ended: Any = None
        inf = float("inf")
        size, acts = int(task.num_obs), int(task.num_actions)
        box = {"kind": "Box", "dtype": "float32", "words": "Box"}
        self.none = sys.modules["numpy"].zeros((num_envs, acts), "float32")
        self.described = {
            "observation": dict(box, shape=[size], low=[-inf] * size, high=[inf] * size),
            "action": dict(box, shape=[acts], low=[-1.0] * acts, high=[1.0] * acts),
            "max_episode_steps": int(task.max_episode_length),
            "engine": engine_of(task),
            "seeded": False,
        }

    def reset(self, arrays: dict[str, Any]) -> None:
        """Begin an episode everywhere: its own ``reset`` gives a buffer that nothing has filled."""
        self.task.reset_buf[:] = 1
        given, _, done, _ = self.task.step(self.there(self.none))
        arrays["obs"][:] = here(given["obs"])
        self.ended = here(done).astype(bool)

    def step(self, arrays: dict[str, Any]) -> None:
        """Step every environment."""
        given, reward, done, extras = self.task.step(self.there(arrays["action"]))
        obs, valid, ended = here(given["obs"]), ~self.ended, here(done).astype(bool)
        late = here(extras["time_outs"]).astype(bool) if "time_outs" in extras else ended & False
        arrays["obs"][:], arrays["reward"][:], arrays["valid"][:] = obs, here(reward) * valid, valid
        arrays["terminated"][:] = ended & ~late & valid
        arrays["truncated"][:] = ended & late & valid
        self.ended, rows = ended, ended.nonzero()[0]
        arrays["next_obs"][rows] = obs[rows]

    def there(self, action: Any) -> Any:
        """Actions as the task takes them: a tensor on its device; an array if its own are."""
        if not hasattr(self.task.reset_buf, "detach"):
            return action.copy()
        torch = sys.modules["torch"]
        device = getattr(self.task, "device", "cpu")
        return torch.tensor(action, dtype=torch.float32, device=device)

    def close(self) -> None:
        """Nothing: a process has one simulation, which ends with it."""


def here(values: Any) -> Any:
    """The task's live tensor, or array, as an array that may be live, too."""
    return values.detach().cpu().numpy() if hasattr(values, "detach") else values


def outcome(answer: Any) -> tuple[Any, float, bool, bool]:
    """Observation, reward, terminated and truncated, of gymnasium's five or old gym's four."""
    if len(answer) == 5:
        return answer[0], float(answer[1]), bool(answer[2]), bool(answer[3])
    obs, reward, done, info = answer
    truncated = bool(done) and bool(info.get("TimeLimit.truncated"))
    return obs, float(reward), bool(done) and not truncated, truncated


def first_of_two(answer: Any) -> Any:
    """The observation of what gymnasium's ``reset`` gives; its second part is a mapping."""
    obs, info = answer
    if not hasattr(info, "keys"):
        raise TypeError(f"its info is a {type(info).__name__}")
    return obs


def make(request: dict[str, Any]) -> Any:
    """The environments that were asked for."""
    name = request["env"]
    try:
        importlib.import_module("numpy")
    except ImportError as error:
        raise Refused(f"{sys.executable} has no numpy: install it there ({error})") from error
    try:
        if request["backend"] == "isaacgym":
            return VecTask(make_task(request), request["stop"])
        envs = [make_one(request) for _ in range(request["stop"] - request["start"])]
        return Serial(envs, name, request["max_episode_steps"])
    except Refused:
        raise
    except ANYTHING as error:
        traceback.print_exc()
        said = " ".join(f"{type(error).__name__}: {error}".split())
        raise Refused(f"{name} can't be made by {sys.executable}: {said}") from error


def make_task(request: dict[str, Any]) -> Any:
    """A task of Isaac Gym's, which must be imported before torch."""
    name, kwargs, count = request["env"], request["kwargs"], request["stop"]
    if ":" in name:
        return load(name)(num_envs=count, **kwargs)
    load("isaacgym")
    usual = {"sim_device": "cuda:0", "rl_device": "cuda:0", "graphics_device_id": -1}
    usual.update(seed=0, headless=True, **kwargs)
    return load("isaacgymenvs:make")(task=name, num_envs=count, **usual)


def make_one(request: dict[str, Any]) -> Any:
    """One environment in its wrappers."""
    name = request["env"]
    # 'pkg:Name-v0' is gymnasium's own 'import pkg first'; 'pkg.mod:Name' is a class.
    if name.partition(":")[2].replace(".", "").isidentifier():
        env = load(name)(**request["kwargs"])
    else:
        env = registry().make(name, **request["kwargs"])
    for wrapper in request["wrappers"]:
        named = {wrapper: {}} if isinstance(wrapper, str) else wrapper
        for path, arguments in named.items():
            env = load(path)(env, **arguments)
    return env


def load(path: str) -> Any:
    """The attribute that the path ``pkg.mod:Attribute`` names, or the module ``pkg.mod``."""
    module, _, attributes = path.partition(":")
    try:
        found = importlib.import_module(module)
        for attribute in filter(None, attributes.split(".")):
            found = getattr(found, attribute)
    except (ImportError, AttributeError) as error:
        raise Refused(f"{path} can't be had by {sys.executable}: {error}") from error
    return found


def registry() -> Any:
    """gymnasium, or gym where there is none."""
    for name in ("gymnasium", "gym"):
        try:
            return importlib.import_module(name)
        except ModuleNotFoundError as error:
            if error.name != name:
                raise
    raise Refused(
        f"{sys.executable} has neither gymnasium nor gym, which know ids: install gymnasium there,"
        " or name a class, 'pkg.mod:MyEnv'"
    )


def described(space: Any) -> dict[str, Any]:
    """A space as plain data, by the names of gymnasium's classes and fields."""
    plain: dict[str, Any] = {"kind": type(space).__name__, "words": str(space)}
    for field in ("n", "start", "nvec", "low", "high", "shape"):
        value = getattr(space, field, None)
        if value is not None:
            plain[field] = value.tolist() if hasattr(value, "tolist") else value
    dtype = getattr(space, "dtype", None)
    plain["dtype"] = None if dtype is None else str(dtype)
    return plain


def time_limit_of(env: Any) -> int | None:
    """Steps after which an episode is truncated, if a wrapper or the registry says so."""
    layer = env
    while layer is not None:
        if getattr(layer, "_max_episode_steps", None) is not None:
            return int(layer._max_episode_steps)
        layer = vars(layer).get("env")
    steps = getattr(getattr(env, "spec", None), "max_episode_steps", None)
    return None if steps is None else int(steps)


def engine_of(env: Any) -> str:
    """The engine with its versions: the modules that the environment's class and model are of."""
    kinds = (type(env), type(getattr(getattr(env, "unwrapped", env), "model", None)))
    modules: list[Any] = [sys.modules.get(kind.__module__.split(".")[0]) for kind in kinds]
    known = [f"{m.__name__} {m.__version__}" for m in modules if hasattr(m, "__version__")]
    return ", ".join(known) or "unknown"


def mapped(memory: int, message: dict[str, Any], request: dict[str, Any]) -> dict[str, Any]:
    """This process's rows of the shared arrays, by name."""
    import numpy as np

    whole = mmap.mmap(memory, message["bytes"])
    rows = slice(request["start"], request["stop"])
    arrays = {
        name: np.ndarray(shape, dtype, whole, begin)
        for name, (begin, shape, dtype) in message["arrays"].items()
    }
    place = request["place"]
    failed = arrays.pop("failed")[place : place + 1]
    return {"failed": failed, **{name: array[rows] for name, array in arrays.items()}}


def successor(seed: int, k: int) -> int:
    """The seed of an environment's k-th episode: ``seeding.successor``, which see."""
    if k == 0:
        return seed
    x = (k * 0x9E3779B9 + seed) & 0xFFFFFFFF
    x = ((x ^ (x >> 16)) * 0x21F0AAAD) & 0xFFFFFFFF
    x = ((x ^ (x >> 15)) * 0x735A2D97) & 0xFFFFFFFF
    return (x ^ (x >> 15)) >> 1


def as_message(error: BaseException) -> dict[str, Any]:
    """An error as it goes over the wire; the traceback of one that is no user's goes to the log."""
    if isinstance(error, Refused):
        return {"error": "UserError", "said": str(error)}
    traceback.print_exception(type(error), error, error.__traceback__)
    return {"error": None, "said": f"{type(error).__name__}: {error}"}


def send(end: socket.socket, message: dict[str, Any]) -> None:
    """Send a message without tensors."""
    said = json.dumps({"message": message, "tensors": []}).encode()
    end.sendall(f"{len(said):<{LENGTH}}{0:<{LENGTH}}".encode() + said)


def receive(end: socket.socket) -> dict[str, Any]:
    """The next message."""
    size = int(take(end, 2 * LENGTH)[:LENGTH])
    return json.loads(take(end, size))["message"]  # type: ignore[no-any-return]


def take(end: socket.socket, size: int) -> bytes:
    """So many bytes."""
    data = b""
    while len(data) < size:
        if not (got := end.recv(size - len(data))):
            raise EOFError("the other end of the wire is closed")
        data += got
    return data


def end_group_with(wire: int) -> None:
    """Kill this process group once the wire closes, as hpcpod's ``_process`` does."""
    if os.fork() > 0:
        return
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR2):
        signal.signal(number, signal.SIG_IGN)
    ending = select.poll()
    ending.register(wire, 0)
    ending.poll()
    os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    given = {sys.argv[i]: int(sys.argv[i + 1]) for i in range(1, len(sys.argv), 2)}
    main(given["--wire"], given["--go"], given["--done"], given["--memory"])
