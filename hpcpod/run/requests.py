"""Requests of a run's owner: files in its folder, which the next tick obeys.

A request needs no coordinator, no slot and no scheduler where it is made. For a run on a cluster
one tick follows, which does at once what the coordinator would do at its next one.
"""

from __future__ import annotations

import logging
import time
from operator import index

from hpcpod.errors import LaunchError, UserError
from hpcpod.launchers.factory import launcher_here, launcher_of
from hpcpod.launchers.slurm.feasibility import sentences
from hpcpod.launchers.slurm.launcher import SlurmLauncher
from hpcpod.orchestrator.tick import Orchestrator
from hpcpod.run.launch import start_here, submit_missing
from hpcpod.run.snapshot import counted_here, see
from hpcpod.run.text import many
from hpcpod.storage.freshness import refresh_run
from hpcpod.storage.requests import Drain, Refusals, Resumed, Scale, SlotRefused
from hpcpod.storage.run_folder import RunFolder
from hpcpod.tournament.merge import merge, read_board
from hpcpod.tournament.on_finish import run_on_finish
from hpcpod.tournament.rules import Rules
from hpcpod.tournament.stopping import FINALS_FIRST

log = logging.getLogger(__name__)


def scale(folder: RunFolder, slots: int | None) -> None:
    """Ask for so many slots at once; None: as many as the configuration says.

    Raises:
        UserError: the run is finished, another user's, or can't have as many; or no node could
            give what more slots ask for.
    """
    config = folder.resolved.config
    require_going(folder, "scale")
    if slots is None:
        folder.requests.withdraw(Scale)
        _forgive(folder)
        return
    now = counted_here(folder, read_board(folder), launcher_here(folder))
    if not 1 <= slots <= now.most:
        here = ", and what fits on this machine" if now.local else ""
        raise UserError(
            f"{config.name} can't have {many(slots, 'slot')} at once, only 1 to {now.most}: as"
            f" many as population.pods.max has work for{here}"
        )
    if slots > (now.wanted or 0):
        _require_possible(folder)
    folder.requests.replace(Scale(index(slots)))  # as JSON: NumPy's integers are taken, too
    _forgive(folder)  # else dead slots were never replaced where what was asked before was refused


def pause(folder: RunFolder) -> None:
    """Ask every slot to checkpoint and leave now.

    Raises:
        UserError: the run is finished, or another user's.
    """
    require_going(folder, "pause")
    asked = folder.requests.read_or_default(Drain)
    folder.requests.replace(Drain(now=True, reason=asked.reason or ""))


def drain(folder: RunFolder) -> bool:
    """Ask every slot to leave after its round; False if it was asked to leave before.

    Raises:
        UserError: the run is another user's.
    """
    folder.owner.require_mine()
    if folder.requests.read(Drain) is not None:
        return False
    folder.requests.publish(Drain())
    return True


def undrain(folder: RunFolder) -> bool:
    """Take the wish to pause back, if there was one; what was submitted before did not fail,
    it was ended.

    Raises:
        UserError: the run is another user's.
    """
    folder.owner.require_mine()
    paused = folder.requests.read(Drain) is not None
    _forgive(folder)
    for request in (SlotRefused, Drain):
        folder.requests.withdraw(request)
    return paused


def _forgive(folder: RunFolder) -> None:
    """Forget failures of before: a person has changed the run.

    Earlier submissions did not fail, should they be gone; refused ones may be taken now.
    """
    folder.requests.replace(Resumed(folder.intents.count(), time.time()))  # Unix time, s
    folder.requests.withdraw(Refusals)


def resume(folder: RunFolder, *, detach: bool = False) -> list[str]:
    """Go on with a run that was paused, or whose slots are gone; return the ids of new jobs.

    Slots of a local run run in processes that end with this one, unless it is to ``detach`` them.

    Raises:
        UserError: see ``require_resumable``; or no node could give what its jobs ask for.
        LaunchError: the scheduler refused, or can't be asked from here.
    """
    require_resumable(folder)
    _require_possible(folder)  # before the pause is taken back: a refusal changes nothing
    paused = undrain(folder)
    config = folder.resolved.config
    if config.cluster.launcher == "local":
        start_here(folder, detach=detach)
        return []
    try:
        return submit_missing(folder)
    except LaunchError as error:
        if not paused:
            raise
        raise LaunchError(
            f"{config.name} is not paused any more, but not all that it lacks was submitted from"
            f" here; a coordinator that lives does it, else another `hpcpod resume`; {error}"
        ) from error


def end(folder: RunFolder, *, score: bool = True) -> str:
    """End the run: have its finalists scored, or finish it now.

    Args:
        folder: the run.
        score: have the finalists scored on fresh seeds first: by the slots that are at work; of a
            run on this machine that is paused or interrupted, by processes that end with this
            one. Where neither is there, or that was asked for before, the run is finished at
            once, and so are its jobs.

    Returns:
        Why its jobs could not be ended from here, in one sentence, or an empty string. Then its
        slots end by themselves when they look up, and those that wait as soon as they start.

    Raises:
        UserError: the run is another user's.
    """
    folder.owner.require_mine()
    rules = Rules.of_run(folder)
    seen = see(folder)
    pausing = seen.state == "draining" and seen.board.phase == "running"
    if score and (pausing or seen.state == "running"):
        merge(folder, rules, stop=FINALS_FIRST)
        if pausing:
            undrain(folder)
        return act(folder)
    if score and start_finals(folder):
        start_here(folder)
        return ""
    board, unable = merge(folder, rules, stop="user"), ""
    if folder.resolved.config.cluster.launcher != "local":
        try:  # at once: what waits would start only to see that the run has ended
            launcher = launcher_of(folder)
            jobs = launcher.observe().jobs
            # A coordinator that may run on_finish already ends by itself.
            stays = "coordinator" if folder.resolved.config.on_finish is not None else None
            doomed = [job for job in jobs if job.kind != stays or job.state == "pending"]
            launcher.cancel([job.job for job in doomed])
        except LaunchError as error:
            unable = str(error)
    run_on_finish(folder, board)
    return unable


def start_finals(folder: RunFolder) -> bool:
    """Ask for the finals of a run on this machine that is paused or interrupted, for the caller to
    start slots; False if the run is none, or has nothing to score.

    Raises:
        UserError: the run is another user's.
    """
    folder.owner.require_mine()
    local = folder.resolved.config.cluster.launcher == "local"
    if not local or see(folder).state not in ("paused", "interrupted"):
        return False
    merge(folder, Rules.of_run(folder), stop=FINALS_FIRST)
    undrain(folder)
    return read_board(folder).phase != "finished"


def tick(folder: RunFolder) -> None:
    """Do once what the coordinator does; what belongs to others is only merged.

    Slots of a local run are its driver's, the jobs of another user's run that user's: there a
    warning says so.

    Raises:
        LaunchError: the scheduler can't be asked from here.
        UserError: the run is another user's, and merging it would run code of theirs.
    """
    owner, local = folder.owner, folder.resolved.config.cluster.launcher == "local"
    if not owner.mine:
        log.warning(
            "%s belongs to %s: its reports are merged, and nothing else is done",
            folder.resolved.config.name, owner.name,
        )  # fmt: skip
    Orchestrator(folder, None if local or not owner.mine else launcher_of(folder)).tick()


def act(folder: RunFolder) -> str:
    """Have a request take effect now, though there may be no coordinator: one tick.

    Returns:
        Why that can't be done here, in one sentence, or an empty string. Then the
        coordinator does it, or the driver of the run on another machine.
    """
    if folder.resolved.config.cluster.launcher == "local":
        return ""
    try:
        Orchestrator(folder, launcher_of(folder)).tick()
    except LaunchError as error:
        return str(error)
    return ""


def require_going(folder: RunFolder, verb: str) -> None:
    """See to it that a run is this user's, and goes on.

    Raises:
        UserError: it is not, or it is finished.
    """
    folder.owner.require_mine()
    if read_board(folder).phase == "finished":
        name = folder.resolved.config.name
        longer = "; `hpcpod extend` gives it larger limits" if verb == "resume" else ""
        raise UserError(f"{name} is finished: there is nothing to {verb}{longer}")


def require_resumable(folder: RunFolder) -> None:
    """See to it that a run can be gone on with from here.

    Raises:
        UserError: it is finished, another process runs it, or it is another user's.
    """
    refresh_run(folder)  # an NFS client shows for a minute what was: a run that has just ended
    require_going(folder, "resume")
    config = folder.resolved.config
    if config.cluster.launcher == "local" and folder.locks.driven():
        raise UserError(f"another process runs {config.name} already; see `hpcpod status`")


def _require_possible(folder: RunFolder) -> None:
    """See to it that slots which are asked for now could start, as far as Slurm tells.

    Raises:
        UserError: no node could give what they ask for, or the run is another user's.
    """
    launcher = launcher_here(folder)
    # Slurm takes a job that no node could hold, and lets it wait for ever.
    found = launcher.impossible() if isinstance(launcher, SlurmLauncher) else []
    if found:
        name = folder.resolved.config.name
        raise UserError(
            f"nothing is done: {'; '.join(sentences(found))}; a run keeps its settings, so"
            f" `hpcpod stop {name}` and launch it anew, by another name"
        )
