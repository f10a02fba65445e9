"""Costs and gains of fused learners: ``python benchmarks/fusion.py``.

``--exchange`` counts what the ranks of a pod send in an epoch (an update of PPO), by parameter
averaging and by exchanging every gradient, and holds a fusion's all-reduce beside the backend's
own. Bytes are those that a rank gives to all-reduces: a ring moves 2 (L - 1) / L times that.

``--learning`` trains PPO on Pendulum-v1, ``--sac`` SAC: one learner, and ranks that are fused by
each scheme, all with the same number of samples over all ranks. What is scored on the way is the
pod, as if it were fused then; of ``none`` the first rank's agent. "n environments" are those of
one rank. CPU seconds are those of the busiest rank: on shared cores wall time is an accident.

Without any of the three all are measured, in about half an hour on two cores. With ``--json`` an
interrupted benchmark goes on where it stopped.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from itertools import groupby
from pathlib import Path

from fusing import orders, tables
from fusing.gang import Gang, Order
from fusing.tables import Done


def main() -> None:
    options = parse(sys.argv[1:])
    done = read(options.json) if options.json else []
    wanted = list(asked(options))
    if not options.report:
        missing = [order for order in wanted if not any(order == other for other, _ in done)]
        try:
            for each in measure(missing):
                done.append(each)
                if options.json:
                    append(options.json, each)
        except KeyboardInterrupt:
            print("interrupted: this is what there is", file=sys.stderr)
    print(render([each for each in done if each[0] in wanted], extent(options)))


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    for name in ("exchange", "learning", "sac"):
        parser.add_argument(f"--{name}", action="store_true")
    parser.add_argument("--seeds", type=int, default=5, help="1 to this number (default: 5)")
    parser.add_argument(
        "--schemes", type=lambda text: text.split(","), default=list(orders.SCHEMES),
        help=f"of --learning and --sac, comma-separated: {', '.join(orders.SCHEMES)}",
    )  # fmt: skip
    parser.add_argument("--budget", type=float, default=1.0, help="factor of all steps")
    parser.add_argument("--backends", default="gloo", help="of --exchange: gloo, mpi or both")
    parser.add_argument("--quick", action="store_true", help="one seed, a tenth of everything")
    parser.add_argument("--json", type=Path, metavar="OUT", help="append each result, a line each")
    parser.add_argument("--report", action="store_true", help="measure nothing: the tables of OUT")
    options = parser.parse_args(arguments)
    if options.report and options.json is None:
        parser.error("--report prints the tables of a file: say which by --json OUT")
    for word in options.backends.split(","):
        if word not in ("gloo", "mpi"):
            parser.error(f"--backends: {word} is neither gloo nor mpi")
    for word in options.schemes:
        if word not in orders.SCHEMES:
            parser.error(f"--schemes: {word} is none of {', '.join(orders.SCHEMES)}")
    if options.quick:
        options.seeds = 1
    if not (options.exchange or options.learning or options.sac):
        options.exchange = options.learning = options.sac = True
    return options


def asked(options: argparse.Namespace) -> Iterator[Order]:
    """All that is to be measured."""
    if options.exchange:
        for backend in options.backends.split(","):
            yield from orders.exchanges(backend, options.quick)
    for task, wanted in (("ppo", options.learning), ("sac", options.sac)):
        for seed in range(1, options.seeds + 1) if wanted else ():
            for learners in orders.LEARNERS[task]:
                if learners.scheme in options.schemes:
                    yield orders.learning(task, learners, seed, extent(options))


def extent(options: argparse.Namespace) -> orders.Extent:
    """How much is trained."""
    if options.quick:
        return orders.QUICK
    return replace(orders.Extent(), budget=options.budget)


def measure(missing: list[Order]) -> Iterator[Done]:
    """Do what is missing; processes stay for all orders of as many ranks."""

    def gang(order: Order) -> tuple[str, int]:
        return order["backend"], order["ranks"]

    count = 0
    for (backend, ranks), group in groupby(sorted(missing, key=gang), key=gang):
        with Gang(ranks, backend) as running:
            for order in group:
                result = running.do(order)
                count += 1
                print(f"{count}/{len(missing)} {told(order)}", file=sys.stderr, flush=True)
                yield order, result


def told(order: Order) -> str:
    """An order in a few words."""
    names = "kind", "backend", "ranks", "task", "model", "scheme", "every", "ancestor", "seed"
    return " ".join(f"{name}={order[name]}" for name in names if name in order)


def read(path: Path) -> list[Done]:
    """The results of a file; a last line that was cut short is left out."""
    found = []
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else []:
        with contextlib.suppress(json.JSONDecodeError):
            order, result = json.loads(line)
            found.append((order, result))
    return found


def append(path: Path, done: Done) -> None:
    """Add a result to a file, below a last line that was cut short."""
    cut = path.exists() and not path.read_bytes().endswith(b"\n") and path.stat().st_size > 0
    with path.open("a", encoding="utf-8") as file:
        file.write(("\n" if cut else "") + json.dumps(done) + "\n")


def render(done: list[Done], extent: orders.Extent) -> str:
    """Every table that has rows."""
    parts = [tables.epochs(done), tables.bandwidth(done)]
    for task in orders.TASKS:
        parts += [
            tables.samples(done, task, extent), tables.seconds(done, task, extent),
            tables.apart(done, task, extent),
        ]  # fmt: skip
    return "\n\n".join(part for part in parts if part)


if __name__ == "__main__":
    main()
