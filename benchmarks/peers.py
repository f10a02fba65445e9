"""hpcpod and its peers on the same tasks: ``python benchmarks/peers.py``, about 45 minutes.

Each contender is a process of its own in a virtual environment of its own (made at the first
run, about 1 GB each). They take turns, and so do the repetitions: what disturbs the machine for
minutes meets all of them. A rate is the median over windows after the warm-up, a figure of the
table the median over repetitions, a ratio the median of the repetitions' own ratios. ``cores``
is what a contender used, ``other cores`` what the rest of the machine used meanwhile; "per CPU s"
is hpcpod's ratio of steps per second of processor time, which a busy machine disturbs least.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any

from contenders import table
from contenders.process import MARK
from contenders.registry import CONTENDERS, OURS
from contenders.rows import ROWS, Row
from contenders.table import Run
from contenders.venvs import NotInstalled, last_words, python_of

HERE = Path(__file__).parent
START = 90.0
"""Seconds that a process may take beside its measurement: imports, networks, first steps."""
THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS")


def main() -> None:
    options = parse(sys.argv[1:])
    runs: list[Run] = []
    try:
        for run in measure(options):
            runs.append(run)
            rate = table.amount(run.number("env_steps_per_second"))
            said = f"{rate} env steps/s" if run.result else run.failure
            print(f"{run.row} {run.repeat}: {run.contender} {run.variant}: {said}", file=sys.stderr)
            if options.json is not None:
                with options.json.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(run.json()) + "\n")
    except KeyboardInterrupt:
        print("interrupted: this is what there is", file=sys.stderr)
    print(table.render(runs))


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rows", type=names_of(ROWS), default=list(ROWS), help="comma-separated")
    parser.add_argument("--peers", type=names_of(CONTENDERS), default=list(CONTENDERS))
    parser.add_argument("--repeats", type=int, default=3, help="of each (default: 3)")
    parser.add_argument(
        "--seconds", type=float, default=2.0, help="of each measurement, after 1 s (default: 2)"
    )
    parser.add_argument(
        "--limit", type=float, default=40.0, help="most seconds to a threshold (default: 40)"
    )
    parser.add_argument("--quick", action="store_true", help="once, 1 s each, no threshold waited")
    parser.add_argument("--venvs", type=Path, default=HERE / ".venvs", help="their folder")
    parser.add_argument("--json", type=Path, help="append each run to this file, a line each")
    options = parser.parse_args(arguments)
    options.rows = [name for name in ROWS if name in options.rows]
    options.peers = [name for name in CONTENDERS if name in {OURS, *options.peers}]
    if options.quick:
        options.repeats, options.seconds, options.limit = 1, 1.0, 8.0
    return options


def names_of(known: Collection[str]) -> Callable[[str], list[str]]:
    """Names with commas between them, in the order that was asked."""

    def split(text: str) -> list[str]:
        wanted = text.split(",")
        unknown = [name for name in wanted if name not in known]
        if unknown:
            raise argparse.ArgumentTypeError(f"{unknown[0]} is none of {', '.join(known)}")
        return list(dict.fromkeys(wanted))

    return split


def measure(options: argparse.Namespace) -> Iterator[Run]:
    """Every run, row by row: each repetition lets all contenders run once."""
    pythons = dict(interpreters(options.peers, options.venvs))
    for row in (ROWS[name] for name in options.rows):
        variants: dict[str, tuple[str, ...]] = {}
        for repeat in range(options.repeats):
            done: dict[str, list[Run]] = {}
            for name in options.peers:
                contender, python = CONTENDERS[name], pythons[name]
                refusal = python if isinstance(python, str) else contender.refuses(row)
                if refusal:
                    if repeat == 0:
                        yield Run(row.name, name, "", repeat, failure=str(refusal))
                    continue
                for variant in variants.get(name, contender.variants(row)):
                    run = run_once(Path(python), row, name, variant, repeat, options)
                    done.setdefault(name, []).append(run)
                    yield run
            for name, runs in done.items():
                if repeat == 0:
                    variants[name] = kept(row, runs)


def kept(row: Row, runs: list[Run]) -> tuple[str, ...]:
    """The variants that are worth repeating: those that ran; of the best settings, the best."""
    ran = [run for run in runs if run.result]
    if not ran:
        return ()
    return (table.fastest(ran),) if row.cores > 1 else tuple(run.variant for run in ran)


def interpreters(names: list[str], venvs: Path) -> Iterator[tuple[str, Path | str]]:
    """Each contender's Python, or why it has none."""
    for name in names:
        try:
            yield name, python_of(name, venvs)
        except NotInstalled as error:
            yield name, f"not installable: {error}"


def run_once(
    python: Path, row: Row, name: str, variant: str, repeat: int, options: argparse.Namespace
) -> Run:
    """One process from start to end."""
    command = [str(python), "-m", f"contenders.{name}", row.name, "--variant", variant]
    command += ["--seed", str(repeat + 1), "--seconds", str(options.seconds)]
    command += ["--limit", str(options.limit)]
    result, failure = answer(command, variant, options.limit + options.seconds + START)
    return Run(row.name, name, variant, repeat, result, failure)


def answer(command: list[str], variant: str, timeout: float) -> tuple[dict[str, Any], str]:
    """What a contender's process measured, or why it did not."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        # A session of its own: what it leaves behind is ended. A folder of its own: some libraries
        # write where they are started.
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=environment(variant),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        try:
            out, err = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            return {}, "did not end in time"
        finally:
            end_group(process)
    lines = [line for line in out.splitlines() if line.startswith(MARK)]
    if process.returncode != 0 or not lines:
        return {}, f"failed: {last_words(err)}"
    result: dict[str, Any] = json.loads(lines[-1].removeprefix(MARK))
    if result["env_steps_per_second"] is None:
        return {}, "too slow to be measured"
    return result, ""


def environment(variant: str) -> dict[str, str]:
    """Of a contender's process: threads, no GPU, and where its module is."""
    words = variant.split("+")
    threads = "2" if "2threads" in words else "1"
    return {
        **os.environ,
        **({"GOMP_SPINCOUNT": "1000"} if "calm" in words else {}),  # as in hpcpod's pods
        **dict.fromkeys(THREADS, threads),
        "CUDA_VISIBLE_DEVICES": "",
        "PYTHONPATH": str(HERE),
        "PYTHONWARNINGS": "ignore",
    }


def end_group(process: subprocess.Popen[str]) -> None:
    """End a process and all that it has started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


if __name__ == "__main__":
    main()
