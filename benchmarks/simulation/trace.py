"""Other users of a cluster: their jobs, and the nodes that fail or are drained.

A synthetic week, not a replay: the published traces are of clusters whose size, limits and
schedulers differ from any that is asked about. Its shape follows what their authors report.

- Jeon et al., USENIX ATC 2019 (Philly, Microsoft): run times from minutes to weeks; most jobs are
  small, and jobs of many GPUs wait for them to end.
- Hu et al., SC 2021 (Helios, SenseTime): more than half of the GPU jobs want one GPU and are
  short, and take a few percent of the GPU time; most of it goes to jobs of a whole node and
  more. Submissions follow the day, with dips at noon and in the evening, and the week.
- Weng et al., NSDI 2022 (PAI, Alibaba): half of the tasks end within about 20 minutes, a tenth
  takes hours.
- Kokolis et al., HPCA 2025 (two research clusters of Meta, Slurm): above 80 % of the GPUs are
  busy; 6.5 failures in 1,000 node-days on the larger one.
- Tsafrir, JSSPP 2010: nine jobs in ten ask for one of 20 time limits, and the longest allowed
  is always popular. Estimates that are a multiple of the run time would flatter a backfill.

So: sizes are powers of two with a heavy tail, run times log-normal within a size, limits a few
round numbers above them (now and then below: such a job is killed there), arrivals a Poisson
process whose rate follows hour and weekday, some of them sweeps of many equal jobs. How much is
offered is exact: jobs are drawn until their GPU time is the load that was asked for, and a Poisson
process of which the number is known has independent arrival times.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

MINUTE, HOUR, DAY = 60.0, 3600.0, 86400.0

SIZES = (
    # GPUs, share of the jobs, median minutes, sigma of the logarithm
    (1, 0.590, 12.0, 1.9),
    (2, 0.100, 25.0, 1.8),
    (4, 0.110, 35.0, 1.8),
    (8, 0.130, 50.0, 1.8),
    (16, 0.035, 60.0, 1.7),
    (32, 0.020, 60.0, 1.7),
    (64, 0.009, 70.0, 1.6),
    (128, 0.004, 70.0, 1.6),
    (256, 0.0015, 80.0, 1.5),
    (512, 0.0005, 80.0, 1.5),
)
"""Of the GPU time one-GPU jobs take about 4 %, jobs of a node and more nine tenths."""
LIMITS = (1.0, 2.0, 4.0, 8.0, 12.0, 24.0, 48.0, 72.0, 168.0)
"""Hours that people ask for; the last is the longest allowed."""
LONGEST = 0.15
"""Share of the jobs that ask for a day where the need is less, since that is what people do."""
TOO_SHORT = 0.04
"""Share of the jobs whose limit is too low: they are killed by it."""
SWEEPS, SWEEP = 0.06, 8.0
"""Share of the submissions that are sweeps, and their mean number of jobs."""
RHYTHM = (
    *(0.55, 0.45, 0.40, 0.35, 0.35, 0.40, 0.50, 0.70, 1.00, 1.35, 1.55, 1.45),
    *(1.05, 1.30, 1.60, 1.65, 1.60, 1.40, 1.05, 1.10, 1.15, 1.05, 0.90, 0.70),
)
"""Submissions by hour of the day, of the mean."""
WEEKEND = 0.75
"""Submissions on Saturday and Sunday, of a weekday's."""
FAILURES = 6.5e-3
"""Failures of a node in a day."""
DRAINS = 3e-3
"""Drains of a node in a day: an assumption, maintenance of single nodes."""
REPAIR = (4 * HOUR, 1.0)
"""Seconds (median) for which a node is away, and sigma of the logarithm: an assumption."""


@dataclass(frozen=True)
class Job:
    """A job of another user."""

    submit: float
    """Second at which it is submitted."""
    nodes: int
    gpus: int
    """On each of its nodes."""
    runtime: float
    """Seconds; at most ``limit``."""
    limit: float
    """Seconds that were asked for: all that the scheduler knows."""

    @property
    def gpu_seconds(self) -> float:
        return self.nodes * self.gpus * self.runtime


@dataclass(frozen=True)
class Outage:
    """A node that is away: it fails at once, or is drained as its jobs end."""

    node: int
    start: float
    end: float
    drain: bool = False


@dataclass(frozen=True)
class Trace:
    """What happens on a cluster whoever else is there, from second ``begin`` to ``end``."""

    nodes: int
    gpus: int
    """Of a node."""
    begin: float
    """The cluster is empty then; what is measured starts at second 0, on a Monday, 0:00."""
    end: float
    jobs: tuple[Job, ...] = ()
    """By ``submit``."""
    outages: tuple[Outage, ...] = ()


@dataclass(frozen=True)
class Workload:
    """What to draw."""

    nodes: int = 1000
    gpus: int = 8
    days: float = 7.0
    load: float = 0.9
    """GPU time that others ask for, as a share of what there is: in the mean of a week."""
    warmup: float = 4.0
    """Days before second 0 that fill the empty cluster."""


def draw(workload: Workload, seed: int) -> Trace:
    """The trace of a seed."""
    rng = np.random.default_rng(seed)
    begin, end = -workload.warmup * DAY, workload.days * DAY
    share = _mean_rate(begin, end) / _mean_rate(0.0, 7 * DAY)
    wanted = workload.load * workload.nodes * workload.gpus * (end - begin) * share
    jobs: list[Job] = []
    while wanted > 0:
        sweep = _sweep(workload, rng, begin, end)
        jobs += sweep
        wanted -= sum(job.gpu_seconds for job in sweep)
    jobs.sort(key=lambda job: job.submit)
    outages = _outages(workload, rng, begin, end)
    return Trace(workload.nodes, workload.gpus, begin, end, tuple(jobs), tuple(outages))


def rate(second: float) -> float:
    """Submissions at this second, relative to a mean weekday's."""
    day, hour = divmod(second, DAY)
    return RHYTHM[int(hour // HOUR)] * (WEEKEND if int(day) % 7 >= 5 else 1.0)


def _mean_rate(begin: float, end: float) -> float:
    return float(np.mean([rate(second) for second in np.arange(begin, end, HOUR)]))


def _sweep(
    workload: Workload, rng: np.random.Generator, begin: float, end: float
) -> list[Job]:  # fmt: skip
    """One submission: a job, or several equal ones that take differently long."""
    most = max(workload.gpus, workload.nodes * workload.gpus // 4)
    sizes = [row for row in SIZES if row[0] <= most]
    shares = np.array([row[1] for row in sizes])
    size, _, median, sigma = sizes[rng.choice(len(sizes), p=shares / shares.sum())]
    gpus = min(size, workload.gpus)
    count = int(rng.geometric(1 / SWEEP)) if size <= 8 and rng.random() < SWEEPS else 1
    submit = _arrival(rng, begin, end)
    limit = _limit(rng, MINUTE * median * float(np.exp(sigma * rng.standard_normal())))
    # A sweep's jobs are alike; a single one is what its limit was chosen for.
    seconds = limit[0] * np.exp(0.3 * rng.standard_normal(count) * (count > 1))
    return [
        Job(submit, max(1, size // gpus), gpus, float(min(max(each, 30.0), limit[1])), limit[1])
        for each in seconds
    ]


def _arrival(rng: np.random.Generator, begin: float, end: float) -> float:
    """A second drawn from the rhythm, by rejection."""
    highest = max(RHYTHM)
    while True:
        second = float(rng.uniform(begin, end))
        if rng.random() * highest < rate(second):
            return second


def _limit(rng: np.random.Generator, seconds: float) -> tuple[float, float]:
    """A run time within what is allowed, and the limit that is asked for it."""
    longest = LIMITS[-1] * HOUR
    seconds = min(seconds, longest)
    guess = seconds * float(np.exp(abs(rng.standard_normal())))
    fits = [hours * HOUR for hours in LIMITS if hours * HOUR >= guess]
    limit = fits[0] if fits else longest
    drawn = rng.random()
    if drawn < LONGEST:
        limit = max(limit, DAY)
    elif drawn < LONGEST + TOO_SHORT:
        limit = max([hours * HOUR for hours in LIMITS if hours * HOUR < seconds], default=limit)
    return min(seconds, limit), limit


def _outages(
    workload: Workload, rng: np.random.Generator, begin: float, end: float
) -> list[Outage]:
    found: list[Outage] = []
    back: NDArray[np.float64] = np.full(workload.nodes, begin)
    expected = (FAILURES + DRAINS) * workload.nodes * (end - begin) / DAY
    for second in np.sort(rng.uniform(begin, end, rng.poisson(expected))):
        node = int(rng.integers(workload.nodes))
        drain = bool(rng.random() < DRAINS / (FAILURES + DRAINS))
        away = REPAIR[0] * float(np.exp(REPAIR[1] * rng.standard_normal()))
        if second > back[node]:  # a node that is away does not fail
            back[node] = second + away
            found.append(Outage(node, float(second), float(second) + away, drain))
    return found
