"""The screen of ``hpcpod watch``: which pane is shown, which pod is chosen, what a key does."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from hpcpod.cli.screen import panes
from hpcpod.cli.screen.text import line
from hpcpod.cli.screen.watcher import Watcher
from hpcpod.errors import HpcpodError
from hpcpod.run import explain
from hpcpod.run.run import Run

if TYPE_CHECKING:
    from rich.text import Text

HELP = """\
 1 2 3 4       a pane: leaderboard, slots, events, the chosen pod
 tab           the next pane, shift-tab the one before
 up down j k   choose a pod or a slot; in the events, go back and forth
 page up/down  the same by a page; in a pod and in its log, scroll; also space
 enter         open the chosen pod
 w             why the chosen pod does what it does, or waits
 W             why the run has the slots that it has
 l             the end of the chosen pod's log, as it grows
 escape        back
 q             leave; the run goes on, and so it does after Ctrl-C

 Curves: panel means by round. A board keeps rounds 1, 2, 4, 8 and so on and the
 last four of each pod; what comes while this looks is all there.
 The slots are looked at once a second, all else as often as stays below 1 % of a
 core, by files alone. `hpcpod why` and `hpcpod status` ask the scheduler, too."""

KEYS = "1-4 tab pane  up/down choose  enter open  w why  l log  ? help  q quit"


class App:
    """The state of the screen."""

    def __init__(self, run: Run, watcher: Watcher) -> None:
        self._run = run
        self._watcher = watcher
        self._pane = 0
        self._over = ""
        """The text over the pane: ``help``, ``log``, ``run``; empty if there is none."""
        self._pod: str | None = None
        self._slot = 0
        self._back = 0
        """Events, or lines of a log or a pod, that are scrolled over."""
        self._why: tuple[str, ...] = ()
        self._why_of: str | None = None
        self._page = 10

    @property
    def chosen(self) -> str | None:
        """The chosen pod; None if there is none."""
        names = self._watcher.scene.names
        if self._pane == 1:
            rows = panes.slot_rows(self._watcher.scene)
            pod = rows[min(self._slot, len(rows) - 1)][1].pod if rows else None
            return pod if pod in self._watcher.scene.board.pods else None
        if self._pod is not None and self._pod in self._watcher.scene.board.pods:
            return self._pod
        return names[0] if names else None

    def lines(self, columns: int, rows: int) -> list[Text]:
        """The whole screen."""
        scene = self._watcher.scene
        top = panes.header(scene, self._pane, columns, rows)
        room = max(1, rows - len(top) - 1)
        self._page = max(1, room - 2)
        body = self._body(columns, room)[:room]
        body += [line()] * (room - len(body))
        clock = time.strftime("%H:%M:%S", time.localtime(scene.now))
        space = " " * max(1, columns - len(KEYS) - len(clock) - 1)
        return [*top, *body, line(f" {KEYS}{space}{clock}", style="dim")]

    def _body(self, columns: int, rows: int) -> list[Text]:
        scene, chosen = self._watcher.scene, self.chosen
        if self._over == "help":
            return self._scrolled([line(words) for words in HELP.splitlines()], rows)
        if self._over == "run":
            return self._scrolled(panes.run_lines(scene, self._why, columns), rows)
        if self._over == "log":
            said = [line(words) for words in self._watcher.log()]
            self._back = min(self._back, max(0, len(said) - rows + 1))
            end = len(said) - self._back
            title = line(f" log of {self._pod}, {end} of {len(said)} lines", style="bold")
            return [title, *said[max(0, end - rows + 1) : end]]
        if self._pane == 0:
            return panes.leaderboard(scene, chosen, columns, rows)
        if self._pane == 1:
            self._slot = max(0, min(self._slot, len(panes.slot_rows(scene)) - 1))
            return panes.slots(scene, self._slot, columns, rows)
        if self._pane == 2:
            self._back = max(0, min(self._back, len(scene.events) - 1))
            return panes.events(scene, self._back, columns, rows)
        if chosen is None:
            return [line(" there is no pod yet", style="dim")]
        why = self._why if self._why_of == chosen else ()
        return self._scrolled(panes.pod(scene, chosen, why, columns), rows)

    def _scrolled(self, lines: list[Text], rows: int) -> list[Text]:
        self._back = max(0, min(self._back, len(lines) - rows))
        return lines[self._back :]

    def press(self, key: str) -> bool:
        """Do what a key says; False if it is to leave."""
        if key == "q":
            return False
        if key in ("escape", "?", "W", "l", "w", "enter"):
            self._open(key)
        elif key in ("tab", "right", "back tab", "left"):
            self._to((self._pane + (1 if key in ("tab", "right") else -1)) % len(panes.PANES))
        elif key.isdecimal() and 1 <= int(key) <= len(panes.PANES):
            self._to(int(key) - 1)
        else:
            steps = {"up": -1, "k": -1, "down": 1, "j": 1}.get(key, 0)
            steps += {"page up": -1, "page down": 1}.get(key, 0) * self._page
            steps += {"home": -1, "end": 1}.get(key, 0) * 10**6
            self._move(steps, line=key in ("up", "k", "down", "j"))
        return True

    def _to(self, pane: int) -> None:
        chosen = self.chosen
        if pane == 3 and chosen is not None:
            self._pod = chosen
        self._pane, self._over, self._back = pane, "", 0
        self._watcher.close_log()

    def _open(self, key: str) -> None:
        chosen, over = self.chosen, self._over
        self._over, self._back = "", 0
        self._watcher.close_log()
        if key == "escape":
            self._pane = self._pane if over else 0
        elif key == "?":
            self._over = "" if over == "help" else "help"
        elif key == "W":
            self._explain(None)
            self._over = "run"
        elif chosen is None:
            return
        elif key == "l":
            self._pod = chosen
            if over != "log":
                self._open_log(chosen)
        else:
            self._to(3)
            if key == "w":
                self._explain(chosen)

    def _open_log(self, pod: str) -> None:
        self._pane, self._over = 3, "log"
        try:
            self._watcher.open_log(pod)
        except HpcpodError as error:
            self._why, self._why_of, self._over = (str(error),), pod, ""

    def _explain(self, pod: str | None) -> None:
        """Explain by the files alone."""
        try:
            said = explain.why(self._run.folder, pod, ask=False)
        except HpcpodError as error:
            said = [str(error)]
        if not self._run.local:
            word = f"{self._run.word} {pod}" if pod else self._run.word
            said.append(f"by files alone; `hpcpod why {word}` asks the scheduler, too")
        at = time.strftime("%H:%M:%S")
        self._why, self._why_of = (*said, f"as of {at}"), pod

    def _move(self, steps: int, *, line: bool) -> None:
        """Choose another row, or scroll."""
        names = self._watcher.scene.names
        if self._over == "log":
            self._back = max(0, self._back - steps)
        elif self._over or (self._pane == 3 and not line):
            self._back = max(0, self._back + steps)
        elif self._pane == 1:
            self._slot = max(0, self._slot + steps)
        elif self._pane == 2:
            self._back = max(0, self._back - steps)
        elif names:
            chosen = self.chosen
            at = names.index(chosen) if chosen in names else 0
            self._pod, self._back = names[max(0, min(at + steps, len(names) - 1))], 0


def watch(run: Run) -> bool:
    """Show a run until it ends; False if the person who looks has left before.

    Raises:
        RunNotFound: its folder is gone.
    """
    watcher = Watcher(run)
    return watcher.ended or _in_panes(run, watcher)  # of one that has ended nothing flashes up


def _in_panes(run: Run, watcher: Watcher) -> bool:
    from hpcpod.cli.screen.terminal import Terminal

    app = App(run, watcher)
    with Terminal() as terminal:
        while not watcher.ended:
            terminal.draw(app.lines(*terminal.size))
            for key in terminal.wait(1.0 - time.time() % 1.0):
                if not app.press(key):
                    return False
            watcher.look()
    return True
