"""decoders.video: frames of encoded videos."""

from __future__ import annotations

import io

import numpy as np
from asyncdali_workers import limits

from ...batch import Batch, storage_dtype
from ...codecs.video.video_frames import OpenVideo, open_video, prepare_decoding
from ...codecs.video.video_padding import PAD_MODES, check_fill_value, check_pad_mode, padded
from ...types import DALIDataType
from ..accepts import Input, Output
from ..base import (  # fmt: skip
    Arg,
    Arguments,
    Environment,
    Iteration,
    Operator,
    Planned,
    Preparation,
    PythonJob,
    SampleError,
    Schema,
    Spec,
    refuse_where,
    register,
)

_RANGE = ("start_frame", "end_frame", "sequence_length", "stride")


@register
class DecodeVideo(Operator):
    """Decodes the frames of encoded videos on the CPU. For a GPU the frames are uploaded."""

    reads = (0,)
    eager = True
    on_cuda = True
    schema = Schema(
        name="decoders.video",
        input_names=("encoded",),
        aliases=("experimental.decoders.video",),
        doc="""Decodes all or some frames of videos.

        Input: encoded bytes (1-D UINT8). Output: frames in RGB (UINT8, FHWC). The frames are all; those in `frames`; or every
        `stride`-th from `start_frame` on, up to `end_frame` or `sequence_length` frames. `pad_mode` replaces frames that a video
        does not have.

        Needs PyAV (``asyncdali[video]``) and decodes the codecs of its FFmpeg. Broken data, a `start_frame` behind the last frame,
        and an `end_frame` not behind `start_frame` are errors that name the sample and its source.""",
        accepts=(Input((DALIDataType.UINT8,), name="encoded videos", ranks=(1,)),),
        gives=(Output(DALIDataType.UINT8, 4, "FHWC"),),
        devices=("cpu", "mixed"),
        args=(
            Arg("frames", "int_list", None,
                "Numbers of the frames, in any order, with repetitions. Excludes the arguments of a range.",
                tensor=True),
            Arg("start_frame", "int", None, "The first frame; default 0. A negative one lies before the video.", tensor=True),
            Arg("end_frame", "int", None, "The first frame after the range; default: the end. Not with `sequence_length`.", tensor=True),
            Arg("sequence_length", "int", None, "Number of frames in the range.", tensor=True),
            Arg("stride", "int", None, "Frames between two of the output; default 1.", tensor=True),
            Arg("pad_mode", "str", "constant",
                'Frames in place of missing ones: "constant" (`fill_value`), "edge" (or "repeat"), "reflect_1001" (or '
                '"symmetric"), "reflect_101" (or "reflect"); "none": a range of frames ends with the video, any other is an error.',
                choices=tuple(PAD_MODES)),
            Arg("fill_value", "int_list", [0], 'Value for `pad_mode="constant"`: one (0 to 255), or one per channel.'),
            Arg("build_index", "bool", True, "No effect: all frames are always located before decoding.", inert=True),
            Arg("affine", "bool", True, "No effect: threads are pinned by the pipeline's `set_affinity`.", inert=True),
        ),
    )  # fmt: skip

    def __init__(self, spec: Spec, environment: Environment):
        super().__init__(spec, environment)
        constant = spec.constant
        ranged = [name for name in _RANGE if spec.given(name)]
        if spec.given("frames") and ranged:
            raise ValueError(f"Cannot specify both `frames` and any of {', '.join(f'`{name}`' for name in _RANGE)}; got `{ranged[0]}`")
        if spec.given("sequence_length") and spec.given("end_frame"):
            raise ValueError("Cannot specify both `sequence_length` and `end_frame`")
        check_pad_mode(constant("pad_mode"))
        self._way, self._fill = PAD_MODES[constant("pad_mode")], constant("fill_value")
        check_fill_value(self._fill)
        prepare_decoding()

    def prepare(self, inputs: list[Batch], arguments: Arguments, iteration: Iteration) -> Preparation:
        source = inputs[0]
        wanted = self._selection(arguments)
        opened: dict[int, OpenVideo] = {}

        def locate(i: int) -> None:
            try:
                opened[i] = open_video(io.BytesIO(source.sample(i).data))
            except ValueError as error:
                raise SampleError(i, f"broken video: {error}" if len(source.sample(i)) else "the sample is empty") from None

        def decode(i: int) -> None:
            video = opened.pop(i)  # Frames of many large videos would take gigabytes, so a video is closed when it is decoded.
            try:
                video.read(frames[i], output.sample(i), self._fill)
            except ValueError as error:
                raise SampleError(i, f"broken video: {error}") from None
            finally:
                video.close()

        try:
            yield PythonJob(range(len(source)), locate)
            videos = [opened[i].index for i in range(len(source))]
            frames = [wanted.frames(i, len(video)) for i, video in enumerate(videos)]
            extents = [(len(numbers), video.height, video.width, 3) for numbers, video in zip(frames, videos, strict=True)]
            output = Batch(np.array(extents, np.int64).reshape(-1, 4), DALIDataType.UINT8, "FHWC", source_info=source.source_info)
            output.reserve(self.environment.allocate)
            yield PythonJob(range(len(source)), decode)
        finally:
            for video in opened.values():
                video.close()
        return output

    def _selection(self, arguments: Arguments) -> _FrameSelection:
        for name in ("frames", *_RANGE):
            if arguments.is_input(name) and storage_dtype(arguments.batch(name).dtype).kind not in "iu":
                raise ValueError(f"argument '{name}' expects integers, got {arguments.batch(name).dtype.name}")
        bounds = {name: arguments.scalars(name, np.int64) for name in _RANGE if arguments.given(name)}
        return _FrameSelection(arguments, bounds, self._way)

    def plan(self, inputs: list[Batch], arguments: Arguments, iteration: Iteration) -> Planned:
        return Planned([iteration.prepared])


class _FrameSelection:
    """The requested frames of each video. `bounds`: arguments of _RANGE -> int64[samples]."""

    def __init__(self, arguments: Arguments, bounds: dict[str, np.ndarray], way: str):
        self._arguments, self._bounds, self._way = arguments, bounds, way
        for name, values in bounds.items():
            if (np.abs(values) >= 2**31).any():
                sample = int(np.argmax(np.abs(values) >= 2**31))
                raise SampleError(sample, f"`{name}` is {values[sample]}; it must fit into 32 bits")
        if "stride" in bounds:
            refuse_where(bounds["stride"] < 1, lambda sample: f"`stride` must be positive, got {bounds['stride'][sample]}")

    def frames(self, sample: int, count: int) -> np.ndarray:
        """Frame numbers, int64, of a video with `count` frames; MISSING stands for the fill value. Raises SampleError."""
        if self._arguments.given("frames"):
            wanted = self._listed(sample)
        else:
            wanted = self._range(sample, count)
        outside = (wanted < 0) | (wanted >= count)
        if self._way == "none" and outside.any():
            raise SampleError(sample, f'there is no frame {wanted[outside][0]}: the video has {count}, and `pad_mode` is "none"')
        return padded(wanted, count, self._way)

    def _listed(self, sample: int) -> np.ndarray:
        if not self._arguments.is_input("frames"):
            return np.array(self._arguments.constant("frames"), np.int64)
        numbers = self._arguments.batch("frames").sample(sample)
        if numbers.ndim > 1:
            raise SampleError(sample, f"argument 'frames' expects a list of numbers, got shape {tuple(numbers.shape)}")
        return np.atleast_1d(numbers).astype(np.int64)

    def _range(self, sample: int, count: int) -> np.ndarray:
        start, stride = self._bound("start_frame", sample, 0), self._bound("stride", sample, 1)
        if start >= count:
            raise SampleError(sample, f"`start_frame` is {start}, the video has {count} frames")
        if "sequence_length" in self._bounds:
            length = self._bound("sequence_length", sample, 0)
            if length < 0:
                raise SampleError(sample, f"`sequence_length` must not be negative, got {length}")
            limits.check_size(16 * length, f"a sequence of {length:,} frames")
            wanted = start + stride * np.arange(length)
        else:
            end = self._bound("end_frame", sample, count)
            if end <= start:
                raise SampleError(sample, f"`end_frame` ({end}) must be greater than `start_frame` ({start})")
            limits.check_size(8 * ((end - start) // stride), f"the frames from {start:,} to {end:,}")
            wanted = np.arange(start, end, stride)
        return wanted[wanted < count] if self._way == "none" else wanted

    def _bound(self, name: str, sample: int, default: int) -> int:
        return int(self._bounds[name][sample]) if name in self._bounds else default
