"""Output of ``scontrol show config`` and ``show partition``, read into plain data."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

DEFAULT_REQUEUE_SECONDS = 120.0
"""``cred_expire`` where the site has not set it, or set it to less than 5."""

_SETTING = re.compile(r"^(\w+(?:\[\d+\])?)[ \t]*=[ \t]*(.*?)[ \t]*$", re.MULTILINE)
_NOTHING = {"", "(null)", "N/A", "none"}


def read_settings(text: str) -> dict[str, str]:
    """Each setting by its name, as written; the first of a name counts."""
    settings: dict[str, str] = {}
    for name, value in _SETTING.findall(text):
        settings.setdefault(name, "" if value in _NOTHING else value)  # N/A and (null) are unset
    return settings


def max_array_size(settings: Mapping[str, str]) -> int | None:
    """Elements that one array may have; None where Slurm does not say."""
    return _whole(settings.get("MaxArraySize"))


def read_partitions(text: str) -> list[dict[str, str]]:
    """The partitions of ``scontrol show partition -o``, each with its ``Name=value`` words."""
    rows = [dict(re.findall(r"(\w+)=(\S*)", line)) for line in text.splitlines()]
    return [row for row in rows if "PartitionName" in row]


def minutes_of(text: str) -> float:
    """Slurm's way to write a time limit (``1-02:00:00``, ``30:00``) in minutes; no limit: inf."""
    match = re.fullmatch(r"(?:(\d{1,9})-)?(\d{1,9})(?::(\d{1,9}))?(?::(\d{1,9}))?", text)
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
    delay = _whole(option(settings, "SchedulerParameters", "requeue_delay"))  # since 25.11
    if delay is not None:
        return float(delay)
    expires = _whole(option(settings, "AuthInfo", "cred_expire")) or 0
    # measured on 22.05: 121 s by default, and with a cred_expire below 5
    return (expires if expires >= 5 else DEFAULT_REQUEUE_SECONDS) + 1.0


def _whole(text: str | None) -> int | None:
    match = re.match(r"\d{1,18}(?!\d)", text or "", re.ASCII)
    return int(match[0]) if match else None
