"""Frames of an episode: as a video, and as a contact sheet, one picture for a report."""

from __future__ import annotations

import io
import os
from collections.abc import Sequence
from contextlib import closing
from fractions import Fraction
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hpcpod.errors import UserError
from hpcpod.storage.disk import Disk, explained

Frame = NDArray[np.uint8]
"""A picture: uint8 [height, width, 3], red, green and blue."""

NEEDS = "needs a package that is missing: {}; pip install 'hpcpod[play]'"
SHEET_FRAMES = 8
"""Frames of an episode on a contact sheet."""
SHEET_EPISODES = 8
"""Episodes on one."""
THUMB = 240
"""Width of a frame on a contact sheet, in pixels."""
_MARGIN, _LINE = 4, 14  # pixels


class Video:
    """A video in the making, H.264 in an MP4 file: it appears complete, or not at all."""

    def __init__(self, path: Path, fps: float) -> None:
        """Args:
        path: of the file, which ends in ``.mp4``; it is replaced.
        fps: frames a second.

        Raises:
            UserError: PyAV is not installed.
            StorageError: there is no room for it; so do the methods.
        """
        try:
            import av
        except ImportError as error:
            raise UserError(f"--record {NEEDS.format(error)}") from error
        self._path, self._aside = path, path.with_name(f".{path.stem}.part{os.getpid()}.mp4")
        with explained("write", path):
            self._file: Any = av.open(str(self._aside), "w")
        self._stream: Any = self._file.add_stream("libx264", rate=Fraction(fps).limit_denominator())
        self._stream.pix_fmt = "yuv420p"  # what every player reads; its width and height are even
        self._frame: Any = av.VideoFrame
        self.frames = 0
        """Frames so far."""
        self.size = (0, 0)
        """Width and height in pixels; of no frame 0."""

    def add(self, frame: Frame) -> None:
        """Append a frame; one of another size than the first is cut or filled with black."""
        height, width = frame.shape[:2]
        if not self.frames:
            self.size = (width + width % 2, height + height % 2)
            self._stream.width, self._stream.height = self.size
        wide, high = self.size
        if (width, height) != self.size:
            filled = np.zeros((high, wide, 3), np.uint8)
            filled[: min(high, height), : min(wide, width)] = frame[:high, :wide]
            frame = filled
        self._encode(self._frame.from_ndarray(np.ascontiguousarray(frame), format="rgb24"))
        self.frames += 1

    def _encode(self, frame: Any) -> None:
        with explained("write", self._path):
            for packet in self._stream.encode(frame):
                self._file.mux(packet)

    def __enter__(self) -> Video:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        try:
            with explained("write", self._path):
                with closing(self._file):
                    if self.frames:
                        self._encode(None)
                if kind is None and self.frames:
                    self._aside.replace(self._path)
        finally:
            self._aside.unlink(missing_ok=True)


class Thinned:
    """Frames of an episode of any length, evenly spread: at most twice as many as are shown."""

    def __init__(self, most: int = SHEET_FRAMES) -> None:
        self._most, self._every = most, 1
        self._frames: list[tuple[str, Frame]] = []

    def wants(self, step: int) -> bool:
        """True if the frame of this step, counted from 0, is of use."""
        return step % self._every == 0

    def add(self, title: str, frame: Frame, *, ends: bool = False) -> None:
        """Take the frame of a step that is wanted, or the one in which the episode ended."""
        self._frames.append((title, frame))
        if len(self._frames) == 2 * self._most and not ends:
            del self._frames[1::2]
            self._every *= 2

    def shown(self) -> list[tuple[str, Frame]]:
        """The frames to show, with their titles: the first, the last, and others in between."""
        last = len(self._frames) - 1
        if last < self._most:
            return self._frames
        return [self._frames[round(i * last / (self._most - 1))] for i in range(self._most)]


def write_sheet(path: Path, rows: Sequence[tuple[str, Sequence[tuple[str, Frame]]]]) -> None:
    """Write a contact sheet as PNG: a row of frames for each episode.

    Args:
        path: of the file; it is replaced.
        rows: of each episode a title, and its frames, each with a title.

    Raises:
        UserError: Pillow is not installed.
        StorageError: there is no room for it.
    """
    try:
        from PIL import Image, ImageDraw
    except ImportError as error:
        raise UserError(f"--sheet {NEEDS.format(error)}") from error
    height = max(
        round(THUMB * frame.shape[0] / frame.shape[1]) for _, row in rows for _, frame in row
    )
    columns = max(len(row) for _, row in rows)
    tall = height + 2 * _LINE + _MARGIN
    sheet = Image.new("RGB", (columns * (THUMB + _MARGIN) + _MARGIN, len(rows) * tall), "white")
    draw = ImageDraw.Draw(sheet)
    for at, (title, row) in enumerate(rows):
        draw.text((_MARGIN, at * tall), title, fill="black")
        for place, (said, frame) in enumerate(row):
            x, y = _MARGIN + place * (THUMB + _MARGIN), at * tall + _LINE
            size = (THUMB, round(THUMB * frame.shape[0] / frame.shape[1]))
            sheet.paste(Image.fromarray(frame).resize(size), (x, y))
            draw.text((x, y + height), said, fill="dimgray")
    picture = io.BytesIO()
    sheet.save(picture, format="PNG")
    Disk().replace(path.absolute(), picture.getvalue())
