"""Output of ``scontrol show config`` and ``show partition``, read into plain data."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

from hpcpod.launchers.base import Limits

DEFAULT_REQUEUE_SECONDS = 120.0
"""``cred_expire`` where the site has not set it, or set it to less than 5."""

_SETTING = re.compile(r"^(\w+(?:\[\d+\])?)[ \t]*=[ \t]*(.*?)[ \t]*$", re.MULTILINE)
_NOTHING = {"", "(null)", "N/A", "none"}


def read_settings(text: str) -> dict[str, str]:
    """Each setting by its name, as written; the first of a name counts."""
    settings: dict[str, str] = {}
    for name, value in _SETTING.findall(text):
        settings.setdefault(name, "" if value in _NOTHING else value)
    return settings


def read_limits(text: str) -> Limits:
    """The limits in ``scontrol show config`` that decide how a run may act."""
    settings = read_settings(text)
    return Limits(
        version=settings.get("SLURM_VERSION") or None,
        max_array_size=_whole(settings.get("MaxArraySize")),
        max_job_count=_whole(settings.get("MaxJobCount")),
        preempt_type=settings.get("PreemptType") or None,
        preempt_mode=settings.get("PreemptMode") or None,
        requeue_seconds=requeue_seconds(settings) if settings else None,
        kill_seconds=_seconds(settings.get("KillWait")),
        min_job_age=_seconds(settings.get("MinJobAge")),
    )


def read_partitions(text: str) -> list[dict[str, str]]:
    """The partitions of ``scontrol show partition -o``, each with its ``Name=value`` words."""
    rows = [dict(re.findall(r"(\w+)=(\S*)", line)) for line in text.splitlines()]
    return [row for row in rows if "PartitionName" in row]


def minutes_of(text: str) -> float:
    """Slurm's way to write a time limit (``1-02:00:00``, ``30:00``) in minutes; no limit: inf."""
    match = re.fullmatch(r"(?:(\d+)-)?(\d+)(?::(\d+))?(?::(\d+))?", text)
    if match is None:
        return math.inf
    days, *rest = (int(part) if part else 0 for part in match.groups())
    first, second, third = rest
    if match[1] or match[4]:  # days-hours:minutes:seconds, hours:minutes:seconds
        return days * 1440 + first * 60 + second + third / 60
    return first + second / 60  # minutes:seconds


def option(settings: Mapping[str, str], setting: str, name: str) -> str | None:
    """One of the ``name=value`` pairs with commas between them in a setting; "" for a bare name."""
    for pair in settings.get(setting, "").split(","):
        key, _, value = pair.partition("=")
        if key.strip() == name:
            return value.strip()
    return None


def requeue_seconds(settings: Mapping[str, str]) -> float:
    """The delay of a requeued job: one second more than a job's credential is valid."""
    delay = _seconds(option(settings, "SchedulerParameters", "requeue_delay"))  # since 25.11
    if delay is not None:
        return delay
    expires = _seconds(option(settings, "AuthInfo", "cred_expire"))
    if expires is None or expires < 5:
        expires = DEFAULT_REQUEUE_SECONDS
    return expires + 1


def _whole(text: str | None) -> int | None:
    match = re.match(r"\d{1,18}(?!\d)", text or "", re.ASCII)
    return int(match[0]) if match else None


def _seconds(text: str | None) -> float | None:
    whole = _whole(text)
    return None if whole is None else float(whole)
