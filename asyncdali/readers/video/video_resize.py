"""readers.video_resize: sequences of frames from video files, resized."""

from __future__ import annotations

from dataclasses import replace

from ...operators.base import register
from ...operators.resize.resize import RESIZE_ARGS
from .video import VideoReader

_OF_THE_READER = {arg.name for arg in VideoReader.schema.args}
_LEFT_OUT = {"save_attrs", "image_type", "dtype"}


@register
class VideoResizeReader(VideoReader):
    """Sequences of resized video frames. A call makes two operators: the reader, with the name and the position, and ``resize``."""

    schema = replace(
        VideoReader.schema,
        name="readers.video_resize",
        aliases=("video_reader_resize",),
        composed_of=("readers.video", "resize"),
        doc="""Reads sequences of frames from video files and resizes the frames: what `resize` does with the frames of `readers.video`.

        The size is given in exactly one way: `size`, any of `resize_x`, `resize_y`, `resize_shorter`, or `resize_longer`.

        Outputs: those of `readers.video`; the frames have the type that `dtype` says.""",
        args=(*VideoReader.schema.args, *(arg for arg in RESIZE_ARGS if arg.name not in _LEFT_OUT | _OF_THE_READER)),
    )
