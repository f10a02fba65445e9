"""A user's training program executes orders: trains a round, scores a checkpoint. No torch.

A round is a task of the program's: hpcpod writes what it is to do, follows it, and takes what it
has saved. A save in the middle of a round is where the round goes on after a preemption.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from hpcpod.config.program import PROGRAM, ProgramConfig
from hpcpod.config.schema import RunConfig
from hpcpod.errors import Corrupt, StorageError, in_words
from hpcpod.metrics.mirrors import Mirrors
from hpcpod.pod.fresh_seeds import fresh_seeds
from hpcpod.pod.watch import ProgramFailed, Stopped, Watch
from hpcpod.program.answers import Answer, BadReport, needs_error, read_answer
from hpcpod.program.curve import ProgressCurve
from hpcpod.program.follow import Follower
from hpcpod.program.session_folder import Session, Task
from hpcpod.program.standing import Standing, teller
from hpcpod.records.records import Birth, Checkpoint, Order, Report, Rescore, seed_of
from hpcpod.storage.retry import with_retries
from hpcpod.storage.run_folder import RunFolder
from hpcpod.storage.saved_folders import Unsavable, about_of, put_folder, write_folder

log = logging.getLogger(__name__)

END_SECONDS = 3.0
"""Seconds that a kept process has to end when there is no more to do: the slot kills after five."""


@dataclass
class Program:
    """The program of a run: it executes orders, one after another."""

    folder: RunFolder
    _session: Session | None = field(default=None, init=False)
    _leaves_at: float | None = field(default=None, init=False)
    """Time by which a process that has reported, and is not kept, has to be gone."""
    _evaluated: float = field(default=0.0, init=False)

    def __post_init__(self) -> None:
        resolved = self.folder.resolved
        self.folder.owner.require_code(resolved.own_code(), "train")
        self._config: RunConfig = resolved.config
        assert self._config.program is not None, "the run has no program"
        self._program: ProgramConfig = self._config.program
        self._mirrors = Mirrors(self._config.metrics)

    def execute(self, order: Order, slot: str, watch: Watch) -> Report:
        """Train the round of a birth, or score the checkpoint of a rescore.

        Raises:
            Stopped: ``watch.should_stop`` became true; the round goes on from the last save.
            ProgramFailed: the program did not do what was asked; says why in one sentence.
            Diverged: it reported a number that is not finite.
            Corrupt: a checkpoint can't be read.
        """
        began, self._evaluated = time.monotonic(), 0.0
        try:
            if isinstance(order, Rescore):
                report = self._rescore(order, slot, watch)
            else:
                report = self._round(order, slot, watch)
        except BaseException:
            self._drop_session()
            raise
        return replace(
            report, wall_seconds=time.monotonic() - began, evaluate_seconds=self._evaluated
        )

    def train(self, birth: Birth, slot: str, watch: Watch) -> Report:
        """Never asked for: a program trains and scores in one, and no process scores beside it."""
        raise AssertionError(f"{birth.id}: a program is not scored by another process")

    def score(self, birth: Birth, checkpoint: Checkpoint, slot: str, watch: Watch) -> Report:
        """Never asked for; see ``train``."""
        raise AssertionError(f"{birth.id}: a program is not scored by another process")

    def close_loggers(self) -> None:
        """End a process that is kept, and have loggers write what they have got."""
        if self._session is not None:
            self._session.end(END_SECONDS)
        self._session = self._leaves_at = None
        self._mirrors.close()

    def _bare(self, order: Order, slot: str) -> Report:
        return Report(order.id, order.pod, order.round, order.attempt, slot, engine=PROGRAM)

    # scoring

    def _rescore(self, order: Rescore, slot: str, watch: Watch) -> Report:
        if order.members:
            raise ProgramFailed("policies of a program can't be joined", "raised")
        names, episodes = fresh_seeds(order, self._config)
        returns, metrics = self._scored(order, order.checkpoint, names, episodes, watch)
        return replace(self._bare(order, slot), returns=returns, metrics=metrics)

    def _scored(
        self,
        order: Order,
        checkpoint: Checkpoint,
        names: tuple[int | str, ...],
        episodes: int,
        watch: Watch,
    ) -> tuple[tuple[float, ...], Mapping[str, float]]:
        """The returns of a checkpoint on a set of seeds, and its metrics, without training."""
        began = time.monotonic()
        seeds = tuple(seed_of(*names, i) for i in range(episodes))
        # The seed is the set's: what it decides is the same for a parent and its copy.
        task = Task(
            "score", order.pod, order.round, order.attempt, order.hyperparameters,
            seed_of(*names), seeds,
        )  # fmt: skip
        session, _, report = self._follow(task, checkpoint, watch)
        if report is None:
            raise Stopped
        answer = self._answer(report, seeds)
        self._release(session)
        self._evaluated += time.monotonic() - began
        return answer.panel(episodes, *names, checkpoint.core), answer.metrics

    # training

    def _round(self, birth: Birth, slot: str, watch: Watch) -> Report:
        stood = self._stood(birth)
        if birth.inherited and self._program.scores and not stood.inherited and not stood.done:
            assert birth.checkpoint is not None
            seed, number = birth.parents_panel(self._config.seed)
            panel = (seed, "panel", number)
            stood.inherited, _ = self._scored(
                birth, birth.checkpoint, panel, self._config.round.episodes, watch
            )
        if birth.shrink:
            log.info("%s: a program's weights are not shrunk and perturbed", birth.id)
        task = self._task(birth, stood)
        curve = ProgressCurve(
            self.folder, birth, self._config.pod.curve_rows, self._mirrors, stood.start + stood.done
        )

        def listen(follower: Follower, session: Session) -> None:
            follower.on_progress = teller(birth, stood, task, curve, watch, follower, self._sign)
            follower.on_save = self._saver(birth, stood, session, watch, curve, follower)

        session, follower, report = self._follow(task, stood.source, watch, listen)
        seconds = follower.trained
        evaluated = 0.0 if follower.told_at is None else time.monotonic() - follower.told_at
        if report is None:
            curve.write()
            raise Stopped
        answer = self._answer(report, task.panel_seeds)
        steps = self._steps(answer, follower, task)
        if follower.asked and self._unfinished(task, steps, seconds):
            self._save_unfinished(birth, stood, session, watch, steps, seconds)
            curve.write()
            raise Stopped
        trained = stood.done + steps
        checkpoint = self._final_save(birth, stood, session, answer, trained, seconds, watch)
        curve.seal()
        panel = self._config.seed, "panel", birth.round
        done = replace(
            self._bare(birth, slot),
            returns=answer.panel(self._config.round.episodes, *panel, checkpoint.core),
            inherited_returns=stood.inherited,
            checkpoint=checkpoint,
            trained_steps=trained,
            train_seconds=stood.seconds + seconds,
            metrics=answer.metrics,
            begins=birth.begins,
            ends=birth.ends,
        )
        self._evaluated += evaluated
        self._release(session, checkpoint.core)
        return done

    def _stood(self, birth: Birth) -> Standing:
        """The place where a round goes on: its last save if it has one, else its start."""
        start = 0 if birth.checkpoint is None else birth.checkpoint.env_steps
        fresh = Standing(start, source=birth.checkpoint)
        resume = self.folder.checkpoints.latest(birth.pod, birth.round)
        if resume is None:
            return fresh
        try:
            about = about_of(self.folder.blobs, resume, self.folder.owner).get("round", {})
            inherited = tuple(float(value) for value in about["inherited"])
            seconds = float(about["seconds"])
        except (Corrupt, TypeError, ValueError, KeyError) as error:
            log.warning("%s goes back to the round's start: %s", birth.id, error)
            return fresh
        log.info("%s goes on at %d steps", birth.id, resume.env_steps)
        return Standing(start, resume.env_steps - start, seconds, inherited, resume)

    def _task(self, birth: Birth, stood: Standing) -> Task:
        config, budget = self._config, self._program.seconds
        target = birth.round * config.round.env_steps - stood.start
        seeds = tuple(
            seed_of(config.seed, "panel", birth.round, i) for i in range(config.round.episodes)
        )
        return Task(
            "train", birth.pod, birth.round, birth.attempt, birth.hyperparameters,
            seed_of(birth.seed, "round", birth.round), seeds,
            steps=max(0, target) if budget is None else None,
            steps_done=stood.done,
            seconds=None if budget is None else max(0.0, budget - stood.seconds),
        )  # fmt: skip

    def _steps(self, answer: Answer, follower: Follower, task: Task) -> int:
        """Steps of this task: as reported, else as told last, else as asked for, if it was not
        asked to stop before them."""
        if answer.steps is not None:
            return answer.steps
        if follower.steps or follower.asked or task.steps is None:
            return follower.steps
        return max(0, task.steps - task.steps_done)

    def _unfinished(self, task: Task, steps: int, seconds: float) -> bool:
        """True if a program that was asked to stop has not trained all of its round."""
        if task.steps is not None:
            return task.steps_done + steps < task.steps
        return seconds < (task.seconds or 0.0)

    # saving

    def _put(
        self, birth: Birth, stood: Standing, saved: Path, steps: int, seconds: float
    ) -> Checkpoint:
        """The blobs of a saved folder. The disk of the run may refuse."""
        about = {
            "pod": birth.pod, "round_number": birth.round, "agent": PROGRAM,
            "hyperparameters": dict(birth.hyperparameters), **stood.about(seconds),
        }  # fmt: skip
        most = self._program.max_save_bytes
        try:
            return put_folder(self.folder.blobs, saved, stood.start + steps, about, most)
        except (Unsavable, OSError) as error:
            why = error if isinstance(error, Unsavable) else in_words(error)
            raise ProgramFailed(f"the program's save can't be taken: {why}", "raised") from error

    def _final_save(
        self, birth: Birth, stood: Standing, session: Session, answer: Answer, steps: int,
        seconds: float, watch: Watch,
    ) -> Checkpoint:  # fmt: skip
        if not answer.saved:
            raise ProgramFailed("the program reported without a save", "raised")
        saved = session.note_save()
        return with_retries(
            lambda: self._put(birth, stood, saved, steps, seconds), watch.should_stop
        )

    def _saver(
        self, birth: Birth, stood: Standing, session: Session, watch: Watch, curve: ProgressCurve,
        follower: Follower,
    ) -> Callable[[int], None]:  # fmt: skip
        def save(steps: int) -> None:
            self._save_unfinished(birth, stood, session, watch, steps, follower.trained)
            curve.write()

        return save

    def _save_unfinished(
        self, birth: Birth, stood: Standing, session: Session, watch: Watch, steps: int,
        seconds: float,
    ) -> None:  # fmt: skip
        """Take a save inside the round; a disk that refuses costs this one, not the round."""
        if not watch.may_save():
            return
        try:
            made = self._put(birth, stood, session.path("save"), stood.done + steps, seconds)
            self.folder.checkpoints.save(birth.pod, birth.round, birth.attempt, made)
        except StorageError as error:
            log.warning("%s has no new save to go on from: %s", birth.id, error)

    # sessions

    def _follow(
        self, task: Task, source: Checkpoint | None, watch: Watch,
        listen: Callable[[Follower, Session], None] = lambda follower, session: None,
    ) -> tuple[Session, Follower, dict[str, Any] | None]:  # fmt: skip
        """Give the program a task, and follow it; its report, as ``Follower.until_report``."""
        session = self._begin(task, source, watch)
        follower = Follower(session, self._config, watch)
        listen(follower, session)
        try:
            return session, follower, follower.until_report()
        except ProgramFailed:
            if not follower.missed:
                raise
        log.info("the process that was kept has ended before its next task: another one begins it")
        self._drop_session()
        return self._follow(task, source, watch, listen)

    def _begin(self, task: Task, source: Checkpoint | None, watch: Watch) -> Session:
        """Give the program a task, in the process that is kept or in a new one."""
        if self._leaves_at is not None:
            self._see_off(self._leaves_at, watch)
        elif self._session is not None and not self._session.usable:
            self._drop_session()
        try:
            if self._session is None:
                self._session = self._new_session()
            session = self._session
            session.next()
            if source is not None and not session.hand_on(source.core):
                load, owner = session.path("load"), self.folder.owner
                write_folder(self.folder.blobs, source.core, load, owner=owner)
            session.begin(task)
        except OSError as error:  # of the node's own disk: it may be full
            said = f"the session's folder can't be written: {error.strerror}: {error.filename}"
            local = self._config.cluster.launcher == "local"
            where = "start the run with another TMPDIR" if local else "set cluster.scratch"
            raise ProgramFailed(f"{said}; make room there, or {where}", "crash") from error
        return session

    def _new_session(self) -> Session:
        resources = self._config.resources
        several = (resources.nodes_per_pod or 1) > 1
        # Only its owner may write there, and on the other nodes the task is read, too.
        home = self.folder.path / "rendezvous" if several else None
        return Session(self._program, resources.cpus_per_pod, home)

    def _release(self, session: Session, core: str | None = None) -> None:
        """Let go of a task that is done: the process is kept, or ends while its report leaves.

        Args:
            session: of the task.
            core: sha256 of the core of what it has saved.
        """
        session.clear(core)
        if session.alive and session.keeps:
            return
        session.dismiss()
        self._leaves_at = time.monotonic() + self._program.stop_seconds

    def _see_off(self, leaves_at: float, watch: Watch) -> None:
        """Wait for the end of a process that has reported: it may hold the GPU yet."""
        session = self._session
        assert session is not None
        while not session.wait(0.1) and time.monotonic() < leaves_at:
            if watch.should_stop():
                raise Stopped
        if session.alive:
            log.warning(
                "the program went on for %g s after its report (program.stop_seconds): killed",
                self._program.stop_seconds,
            )
        elif session.process is not None and session.process.ending not in (0, None):
            log.warning("the program has reported, and then ended by %s", session.process.ending)
        try:
            session.renew()
            self._leaves_at = None
        except OSError as error:  # the program has done something to its folder
            log.warning("the session's folder can't be used again: %s", error)
            self._drop_session()

    def _drop_session(self) -> None:
        if self._session is not None:
            self._session.close()
        self._session = self._leaves_at = None

    @property
    def _sign(self) -> float:
        """-1 where less is better to the program."""
        return -1.0 if self._program.direction == "minimize" else 1.0

    def _answer(self, report: Mapping[str, Any], seeds: tuple[int, ...]) -> Answer:
        try:
            return read_answer(
                report, seeds,
                minimize=self._sign < 0,
                needs_error=needs_error(self._config),
            )  # fmt: skip
        except BadReport as error:
            raise ProgramFailed(f"the program has failed: {error}", "raised") from error
