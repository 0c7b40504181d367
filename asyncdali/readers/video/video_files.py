"""Video files of a data set: their frames, and a pool of open files."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from ...codecs.video.video_frames import OpenVideo, read_index
from ...codecs.video.video_index import VideoIndex
from ..remote.remote import Opener, open_file

MAX_IDLE = 16
"""Videos that stay open between sequences, so that the next sequence need not seek."""


@dataclass(frozen=True)
class VideoFile(VideoIndex):
    """A file and the times of its frames."""

    path: str


def index_video(path: str) -> VideoFile:
    """Find the frames of a file without decoding them. RuntimeError names the file."""
    try:
        with open_file(path) as source:
            return VideoFile(**vars(read_index(source)), path=path)
    except (OSError, ValueError) as error:
        raise RuntimeError(f'Failed to open video file "{path}": {getattr(error, "strerror", None) or error}') from error


class VideoPool:
    """Videos that are open but not in use. Thread-safe."""

    def __init__(self, videos: Sequence[VideoFile]):
        self._videos = videos
        self._lock = threading.Lock()
        self._idle: OrderedDict[tuple[int, int], OpenVideo] = OrderedDict()  # (video, unique number)
        self._made = 0

    @contextmanager
    def borrow(self, video: int, open_file: Opener) -> Iterator[OpenVideo]:
        """An open video for one thread, opened with `open_file` if none is idle. After an error it is closed, and RuntimeError names it."""
        with self._lock:
            key = next((key for key in self._idle if key[0] == video), None)
            opened = self._idle.pop(key) if key is not None else None
        path = self._videos[video].path
        if opened is None:
            opened = self._open(self._videos[video], open_file)
        try:
            yield opened
        except BaseException as error:
            opened.close()
            if isinstance(error, ValueError):
                raise RuntimeError(f"{path}, {error}") from error
            raise
        with self._lock:
            self._made += 1
            self._idle[video, self._made] = opened
            surplus = [self._idle.popitem(last=False)[1] for _ in range(len(self._idle) - MAX_IDLE)]
        for old in surplus:
            old.close()

    def _open(self, video: VideoFile, open_file: Opener) -> OpenVideo:
        try:
            source = open_file(video.path)
            try:
                return OpenVideo(video, source)
            except BaseException:
                source.close()
                raise
        except (OSError, ValueError) as error:
            raise RuntimeError(f"{video.path}: {getattr(error, 'strerror', None) or error}") from error

    def close(self) -> None:
        """Close idle videos. The pool can be used again."""
        with self._lock:
            idle = list(self._idle.values())
            self._idle.clear()
        for opened in idle:
            opened.close()
