"""The cost of a coordinator beside many slots, on a real Slurm that this starts.

    python benchmarks/many_slots.py                                # 64 slots, 2 MB a checkpoint
    python benchmarks/many_slots.py --megabytes 500 --rounds 2     # replay segments of 500 MB

Each slot is a real process of an array: it claims orders, plays the panel's episodes of CartPole by
a small network in numpy, stores a checkpoint of that size, reports and merges, as hpcpod's own
slots do. Only the training is left out, and torch with it, so that 64 of them fit on one machine.
The coordinator is hpcpod's own. Printed are its share of a core, the processes that it has waited
for (squeue and so on) included, and its memory.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import gymnasium
import numpy as np
import psutil

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from hpcpod.config.resolved import Resolved  # noqa: E402
from hpcpod.launchers.identity import admitted, identity  # noqa: E402
from hpcpod.records.records import Birth, Checkpoint, Order, Owner, Report, Segment, stable_hash  # noqa: E402
from hpcpod.run.run import open_run  # noqa: E402
from hpcpod.storage.run_folder import RunFolder  # noqa: E402
from hpcpod.storage.slots import SlotStatus  # noqa: E402
from hpcpod.tournament.leaderboard import orders  # noqa: E402
from hpcpod.tournament.merge import merge, read_board  # noqa: E402
from hpcpod.tournament.order_choice import take  # noqa: E402
from hpcpod.tournament.rules import Rules  # noqa: E402
from tests.support.slurm_cluster import Options, SlurmCluster  # noqa: E402

CORE_BYTES = 2_000_000
SEGMENT_BYTES = 64 * 2**20
EPISODES = 8

CONFIG = """\
name: many
env: {{id: CartPole-v1, num_envs: 1}}
population: {{pods: {{min: {slots}, max: {slots}}}, algorithms: {{ppo: 1}}}}
round: {{env_steps: 1000, episodes: {episodes}}}
stop: {{rounds: {rounds}, finalists: 1, confirm_episodes: {episodes}}}
cluster: {{launcher: slurm, minutes: 60, tick_seconds: {tick}, template: {template}}}
"""


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--slots", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=10, help="of each pod")
    parser.add_argument("--seconds", type=float, default=20.0, help="that a round takes at least")
    parser.add_argument("--megabytes", type=float, default=2.0, help="of a checkpoint")
    parser.add_argument("--tick", type=float, default=60.0, help="cluster.tick_seconds")
    parser.add_argument("--slot", metavar="RUN", type=Path, help="be a slot of this run")
    parser.add_argument("--token")
    options = parser.parse_args()
    return slot(options) if options.slot else measure(options)


def measure(options: argparse.Namespace) -> int:
    """Launch the run and watch its coordinator until it ends."""
    nodes = -(-(options.slots + 1) // 16) + 1
    with (
        tempfile.TemporaryDirectory(prefix="hpcpod-many-") as home,
        SlurmCluster.started(Options(nodes=nodes, gpus=0)) as cluster,
    ):
        begun = time.monotonic()
        config = Path(home) / "many.yaml"
        config.write_text(
            CONFIG.format(
                slots=options.slots, rounds=options.rounds, tick=options.tick,
                episodes=EPISODES, template=template(Path(home), options),
            )
        )  # fmt: skip
        command = [sys.executable, "-m", "hpcpod", "launch", str(config), "--no-probe"]
        subprocess.run(command, cwd=home, env=environment(cluster), check=True)
        run = open_run(Path(home) / "runs" / "many")
        coordinator = found(cluster, run.path)
        with coordinator.oneshot():
            before, since = cpu_seconds(coordinator), time.monotonic()
        most, slots = 0, 0
        cpu, until = before, since
        while run.board().phase != "finished":
            time.sleep(2.0)
            try:
                cpu, until = cpu_seconds(coordinator), time.monotonic()
                most = max(most, coordinator.memory_info().rss)
            except psutil.NoSuchProcess:
                break
            slots = max(slots, len(run.status().slots))
        board = run.board()
        share = 100 * (cpu - before) / (until - since)
        print(
            f"{slots} slots at once, {board.rounds} rounds of {options.megabytes:g} MB and"
            f" {board.reports} reports in {time.monotonic() - begun:.0f} s; a tick every"
            f" {options.tick:g} s: the coordinator took {share:.2f} % of a core"
            f" and {most / 1e6:.0f} MB"
        )
    return 0 if board.stop_reason == "rounds" and slots == options.slots else 1


def environment(cluster: SlurmCluster) -> dict[str, str]:
    return cluster.env({"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"})


def template(home: Path, options: argparse.Namespace) -> Path:
    """hpcpod's template of an array, with this file in the slot's place."""
    folder = home / "templates"
    folder.mkdir()
    text = (ROOT / "slurm_templates" / "pod_array.sbatch").read_text()
    words = f"{Path(__file__).resolve()} --seconds {options.seconds}"
    words += f" --megabytes {options.megabytes}"
    changed = text.replace("-m hpcpod.slot @{folder}", f"{words} --slot @{{folder}}")
    assert changed != text
    (folder / "pod_array.sbatch").write_text(changed)
    return folder


def found(cluster: SlurmCluster, run: Path) -> psutil.Process:
    """The run's coordinator, once it is there."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        for pid in cluster.processes():
            try:
                words = psutil.Process(pid).cmdline()
            except psutil.NoSuchProcess:
                continue
            if "hpcpod.orchestrator" in words and "python" in Path(words[0]).name:
                return psutil.Process(pid)
        time.sleep(0.2)
    raise TimeoutError(f"no coordinator of {run}")


def cpu_seconds(process: psutil.Process) -> float:
    """Of the process and of those that it has waited for."""
    times = process.cpu_times()
    total: float = times.user + times.system + times.children_user + times.children_system
    return total


def slot(options: argparse.Namespace) -> int:
    """Claim, play, store, report, merge; until the run ends."""
    folder = RunFolder.open(options.slot)
    owner = identity()
    if not admitted(folder, options.token, owner):
        return 0
    resolved = Resolved.from_document(folder.config)
    rules = Rules.of(resolved.config, resolved.algorithms)
    played = 0
    while True:
        board = read_board(folder)
        if board.phase == "finished":
            return 0
        order = take(folder, owner, orders(board), None, board)
        show(folder, owner, order)
        if order is None:
            time.sleep(2.0)
            continue
        begun, played = time.monotonic(), played + 1
        returns = tuple(play(1000 * played + episode) for episode in range(EPISODES))
        stored = checkpoint(folder, order, options.megabytes)
        time.sleep(max(0.0, options.seconds - (time.monotonic() - begun)))
        trained = 1000 if isinstance(order, Birth) else 0
        folder.reports.publish(
            Report(
                order.id, order.pod, order.round, order.attempt, owner.slot, returns,
                checkpoint=stored, trained_steps=trained,
            )
        )  # fmt: skip
        merge(folder, rules)


def show(folder: RunFolder, owner: Owner, order: Order | None) -> None:
    shown = SlotStatus("idle", job=owner.job, host=owner.host, pid=psutil.Process().pid)
    if order is not None:
        shown = replace(shown, state="training", order=order.id, pod=order.pod, round=order.round)
    folder.slots.write(owner.slot, shown)


def play(seed: int) -> float:
    """One episode of CartPole by two layers of random weights."""
    env = gymnasium.make("CartPole-v1")
    draw = np.random.default_rng(seed)
    first, second = draw.normal(size=(4, 32)), draw.normal(size=(32, 2))
    seen, _ = env.reset(seed=seed)
    total, ended = 0.0, False
    while not ended:
        action = int(np.argmax(np.tanh(seen @ first) @ second))
        seen, reward, terminated, truncated, _ = env.step(action)
        total, ended = total + float(reward), terminated or truncated
    env.close()
    return total


def checkpoint(folder: RunFolder, order: Order, megabytes: float) -> Checkpoint:
    """A core of at most 2 MB, and the rest in segments of replay."""
    draw = np.random.default_rng(stable_hash(order.id))

    def put(size: int) -> str:
        return folder.blobs.put({"rows": np.frombuffer(draw.bytes(size), np.uint8)}, {})

    left = int(megabytes * 1e6)
    core = put(min(left, CORE_BYTES))
    left -= min(left, CORE_BYTES)
    segments: list[Segment] = []
    rows = 0
    while left > 0:
        size = min(left, SEGMENT_BYTES)
        segments.append(Segment(rows, rows + size, put(size)))
        rows, left = rows + size, left - size
    return Checkpoint(core, 1000 * order.round, rows, tuple(segments))


if __name__ == "__main__":
    sys.exit(main())
