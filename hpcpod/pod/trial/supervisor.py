"""The supervisor of a trial in a process of its own: a hang or a death there becomes a sentence.

No torch on this side.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import re
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import IO, Any

from hpcpod._process import PYTHON, ending
from hpcpod.config.algorithms import resolve_algorithms
from hpcpod.config.auto.task import Task
from hpcpod.config.decoder import encode
from hpcpod.config.loader import from_plain, to_mapping
from hpcpod.config.schema import RunConfig
from hpcpod.config.space import AlgorithmSpace
from hpcpod.errors import ConfigError, UserError, first_own
from hpcpod.pod.trial.fit import Look
from hpcpod.records.codec import decode

LOOK_SECONDS = 1.0
"""Interval between two looks at the clock while no reply comes."""
QUIET_SECONDS = 10.0
"""Interval between two messages to the user on what is being done."""
DUMP_SECONDS = 5.0
"""Seconds that a process which hangs has to write its stack."""
LAST_LINES = 6
"""Of what a process has printed, in a message."""
MOST_PRINTED = 1 << 16
"""Bytes of what a process has printed that are shown when it is done."""

_FRAME = re.compile(rb'^ +File "(.+)", line (\d+)', re.MULTILINE)
"""Of a stack as ``faulthandler`` writes it, the innermost first."""

Hear = Callable[[str], None]
"""Called with what is being done, again and again."""

log = logging.getLogger(__name__)


class TrialEnded(UserError):
    """An environment or agent that hangs in a trial, or has ended its process."""

    def __init__(self, field: str, said: str) -> None:
        self.field = field
        """Of the configuration: what is to blame."""
        super().__init__(said)


def probe(config: RunConfig) -> tuple[Mapping[str, AlgorithmSpace], Look | None, list[str]]:
    """Have a look at a task in a process of its own, which loads the agents and torch: see
    ``hpcpod.pod.trial.probe.probe``.

    What only this process knows, such as a class of a notebook's, is looked at here.

    Returns:
        The space of each algorithm, what was seen of the task, and every problem: something can't
        be made, or does not fit, or hangs, or ends the process.
    """
    spaces, look, problems = probe_alike([config])
    return spaces[0], look, problems[0]


def probe_alike(
    configs: Sequence[RunConfig],
) -> tuple[list[Mapping[str, AlgorithmSpace]], Look | None, list[list[str]]]:
    """``probe`` of a task that several configurations have, which differ in ``agents`` alone: it is
    looked at once, with the agents of the first.

    Returns:
        The spaces of each configuration's algorithms, what was seen, and each one's problems.
    """
    config, *others = configs
    if config.program is not None:  # it is tried by its first round
        return [resolve_algorithms(each) for each in configs], None, [[] for _ in configs]
    # The rest is as the first has it: a hundred whole configurations took a second.
    parts = [{"agents": encode(other.agents)} for other in others]
    request = {"what": "probe", "config": to_mapping(config), "alike": parts}
    if known_here_alone(config, request):
        from hpcpod.pod.trial.probe import resolve_and_probe

        answer = _merged(resolve_and_probe(config, alike=others))
    else:
        answer = _answer(config, request)
    # A trial that has died has said nothing of the others.
    unsaid: list[dict[str, Any]] = [{"algorithms": {}, "problems": []}] * len(others)
    found = [answer, *answer.get("alike", unsaid)]
    spaces = [
        from_plain(dict[str, AlgorithmSpace], each.get("algorithms", {}), "the algorithms")
        for each in found
    ]
    look = decode(Look, answer["look"]) if "look" in answer else None
    return spaces, look, [each["problems"] for each in found]


def measure(config: RunConfig, seconds: float) -> tuple[Task, Mapping[str, AlgorithmSpace]]:
    """Measure a task in a process of its own: see ``hpcpod.pod.trial.speed.measure``.

    Returns:
        The task, and the search space of each algorithm that can act in it.

    Raises:
        ConfigError: something can't be made, or hangs, or ends the process.
    """
    request = {"what": "measure", "config": to_mapping(config), "seconds": seconds}
    if known_here_alone(config, request):
        from hpcpod.pod.trial.speed import resolve_and_measure

        answer = resolve_and_measure(config, seconds)
    else:
        answer = _answer(config, request)
        if answer["problems"]:
            raise ConfigError("the configuration", answer["problems"])
    spaces = from_plain(dict[str, AlgorithmSpace], answer["spaces"], "the search spaces")
    return decode(Task, answer["task"]), spaces


def _answer(config: RunConfig, request: Mapping[str, Any]) -> dict[str, Any]:
    """The replies to a request about a run as one, with all ``problems``: what the trial found, and
    that it hangs or ended its process."""
    more = "if it only is slow, give it more (env.trial_seconds)"
    patience = _Words(config.env.id)
    return _merged(follow(request, config.env.id, config.env.trial_seconds, more, patience.hear))


def _merged(replies: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    answer: dict[str, Any] = {}
    problems: list[str] = []
    try:
        for reply in replies:
            problems += reply.get("problems", [])
            answer |= reply
    except TrialEnded as error:
        problems.append(f"{error.field}: {error}")
    return {**answer, "problems": problems}


def check(
    config: RunConfig,
    device: str,
    sizes: Sequence[int],
    *,
    steps: int | None,
    seconds: float,
    patience: float,
    hear: Hear,
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Try an environment in a process of its own: see ``hpcpod.pod.trial.env_trial.try_env``.

    Args:
        config: as there, like ``device``, ``sizes``, ``steps`` and ``seconds``.
        patience: seconds without a reply that it may take.
        hear: called with what is being done.

    Yields:
        What was found out, as plain data, each behind the name of its kind.

    Raises:
        UserError: what ``try_env`` raises; it hangs, or ends its process.
    """
    request = {
        "what": "check", "config": to_mapping(config), "device": device, "sizes": list(sizes),
        "steps": steps, "seconds": seconds,
    }  # fmt: skip
    if known_here_alone(config, request):
        from hpcpod.pod.trial.env_trial import try_env

        for each in try_env(config, device, sizes, steps=steps, seconds=seconds, tell=hear):
            yield type(each).__name__, asdict(each)
        return
    more = "if it only is slow, give --patience more seconds"
    for reply in follow(request, config.env.id, patience, more, hear):
        if "found" in reply:
            yield reply["kind"], reply["found"]


def known_here_alone(config: RunConfig, request: Mapping[str, Any]) -> bool:
    """True if no other process could make what is to be tried: it is of the script or the notebook
    that runs here, was registered by it, or can't be written as JSON."""
    try:
        sent = json.dumps(request)
    except (TypeError, ValueError):
        return True
    registry = getattr(sys.modules.get("gymnasium"), "registry", {})
    maker = getattr(registry.get(config.env.id), "entry_point", "gymnasium")
    of = maker if isinstance(maker, str) else maker.__module__
    return '"__main__:' in sent or of.split(".")[0].split(":")[0] != "gymnasium"


class _Words:
    """A word now and then for a user who waits."""

    def __init__(self, env: str) -> None:
        self._env = env
        self._began = time.monotonic()
        self._next = QUIET_SECONDS

    def hear(self, doing: str) -> None:
        """Say what is done if nothing was said for long."""
        seconds = time.monotonic() - self._began
        if seconds >= self._next:
            self._next = seconds + QUIET_SECONDS
            log.warning("%s is being tried for %.0f s: %s", self._env, seconds, doing)


@dataclass
class _Doing:
    """The other process's present work, as far as is known here."""

    words: str = "starting Python"
    field: str = ""
    """The field to blame if it never ends; "": none is, so it is waited for."""
    since: float = 0.0

    def subject(self, env: str) -> str:
        """The environment, or the part of a user's own that is to blame."""
        return env if self.field in ("", "env.id") else "it"


def follow(
    request: Mapping[str, Any], env: str, seconds: float, more: str, hear: Hear
) -> Iterator[dict[str, Any]]:
    """Start a process that tries something, and follow it to its end.

    What it prints is shown when it is done, on standard error. Whatever happens, it is gone
    afterwards, and so is all that it has started.

    Args:
        request: see ``trial_process``.
        env: the environment's name, for messages.
        seconds: without a reply after which it is taken to hang.
        more: what to do if it does not.
        hear: called with what is done, at least every ``LOOK_SECONDS``.

    Yields:
        Its replies.

    Raises:
        TrialEnded: it hangs, or its process has ended before it was done.
        UserError: it raised that.
    """
    with tempfile.TemporaryFile() as printed, tempfile.TemporaryFile() as stack:
        process = _start(request, printed, stack)
        doing, well = _Doing(since=time.monotonic()), True
        try:
            for reply in _replies(process, doing, seconds, hear):
                if "refused" in reply:
                    raise UserError(reply["refused"])
                yield reply
        except TimeoutError:
            well = False
            process.send_signal(signal.SIGUSR1)  # it writes its stack
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(DUMP_SECONDS)
            _end(process)
            said = f"{doing.subject(env)} hangs: nothing has happened for {seconds:g} s while"
            said += f" {doing.words}"
            raise TrialEnded(
                doing.field, f"{said}{_line(stack)}; {more}{_last_words(printed)}"
            ) from None
        except EOFError:
            well = False
            code = process.wait()
            said = f"{doing.subject(env)} ended its process while {doing.words}{_line(stack)}"
            said += f": it {ending(code)}"
            raise TrialEnded(doing.field or "env.id", f"{said}{_last_words(printed)}") from None
        finally:
            _end(process)
            if well:  # otherwise the end of it is in the message
                sys.stderr.write(_printed(printed))


def _start(
    request: Mapping[str, Any], printed: IO[bytes], stack: IO[bytes]
) -> subprocess.Popen[bytes]:
    # A file, not a pipe: who reads it late does not keep the process waiting.
    with tempfile.TemporaryFile() as sent:
        sent.write(json.dumps({**request, "path": sys.path}).encode())
        sent.seek(0)
        return subprocess.Popen(
            [*PYTHON, "-u", "-m", "hpcpod.pod.trial", str(os.getpid()),
             str(stack.fileno())],
            stdin=sent, stdout=subprocess.PIPE, stderr=printed, pass_fds=(stack.fileno(),),
            start_new_session=True,
        )  # fmt: skip


def _replies(
    process: subprocess.Popen[bytes], doing: _Doing, seconds: float, hear: Hear
) -> Iterator[dict[str, Any]]:
    """Replies up to the last one; what is done meanwhile goes to ``doing``.

    Raises:
        EOFError: the process has ended before it was done.
        TimeoutError: it hangs.
    """
    assert process.stdout is not None
    reading, received = process.stdout.fileno(), b""
    gone = os.pidfd_open(process.pid)  # a simulator's worker may outlive it, and hold the pipe open
    poll = select.poll()
    poll.register(reading, select.POLLIN)
    poll.register(gone, select.POLLIN)
    try:
        while True:
            ready = dict(poll.poll(min(LOOK_SECONDS, seconds) * 1000))
            if reading in ready:
                chunk = os.read(reading, 1 << 16)  # bytes
                received += chunk
                if not chunk:  # nothing comes any more
                    poll.unregister(reading)
            elif gone in ready:
                raise EOFError
            *lines, received = received.split(b"\n")
            for line in lines:
                reply = json.loads(line)
                doing.since = time.monotonic()
                if "doing" in reply:
                    doing.words, doing.field = reply["doing"], reply["field"]
                elif "log" in reply:
                    logging.getLogger("hpcpod").log(reply["level"], "%s", reply["log"])
                elif "done" in reply:
                    return
                else:
                    yield reply
            hear(doing.words)
            # An environment that hung kept launch silent for ever.
            if doing.field and time.monotonic() - doing.since > seconds:
                raise TimeoutError
    finally:
        os.close(gone)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End it, and all that is in its group."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert process.stdout is not None
    process.stdout.close()


def _line(stack: IO[bytes]) -> str:
    """The line of a user's own code where it was, in brackets."""
    stack.seek(0)
    frames = _FRAME.findall(stack.read())
    return first_own((os.fsdecode(path), int(line)) for path, line in frames)


def _printed(file: IO[bytes]) -> str:
    """The end of what a process has printed."""
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - MOST_PRINTED))
    return file.read().decode(errors="replace")


def _last_words(file: IO[bytes]) -> str:
    lines = [line.rstrip()[:200] for line in _printed(file).splitlines() if line.strip()]
    if not lines:
        return ""
    return "\n    ".join(["; the last that it printed:", *lines[-LAST_LINES:]])
