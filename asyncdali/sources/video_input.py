"""experimental.inputs.video: sequences of frames of videos that the program feeds."""

from __future__ import annotations

from typing import Any

from ..batch import Batch
from ..codecs.video.video_frames import prepare_decoding
from ..operators.base import (
    REQUIRED,
    Arg,
    Arguments,
    Environment,
    Iteration,
    Operator,
    Planned,
    Preparation,
    PythonJob,
    Role,
    Schema,
    Spec,
    register,
)
from ..types import DALIDataType

_POLICIES = ("partial", "pad")


@register
class VideoInput(Operator):
    """Sequences of frames of one fed video. The CPU decodes; for a GPU the frames are uploaded."""

    eager = True
    on_cuda = True
    schema = Schema(
        name="experimental.inputs.video",
        doc="""Decodes videos that the program feeds, a batch of sequences of frames at a time.

        Feed one encoded video at a time: ``pipe.feed_input(name, [bytes])`` with a 1-D UINT8 array. Further samples are ignored.
        Every iteration returns the next sequences of that video, as many as the batch size. The last batch of a video may be
        smaller, and its last sequence may be shorter or filled up. The next video begins with the next iteration. An iteration
        without data is an error; the pipeline continues after another video was fed.

        Output: frames in RGB (UINT8, FHWC). A checkpoint stores the position in the current video. Feed that video again to the
        restored pipeline, then the following ones.

        Needs PyAV (``asyncdali[video]``) and decodes the codecs of its FFmpeg.""",
        inputs=(0, 0),
        devices=("cpu", "mixed"),
        role=Role.INPUT,
        args=(
            Arg("sequence_length", "int", REQUIRED, "Frames of a sequence.", stream=True),
            Arg("last_sequence_policy", "str", "partial",
                'The last sequence of a video: "partial" (only the frames that are left) or "pad" (filled with frames of 0).', stream=True,
                choices=_POLICIES),
            Arg("blocking", "bool", False, "Wait for a video instead of failing."),
            Arg("no_copy", "bool", False, "Use the video in place. It must not change until it has been decoded."),
            Arg("affine", "bool", True, "No effect: threads are pinned by the pipeline's `set_affinity`.", inert=True),
        ),
    )  # fmt: skip

    def __init__(self, spec: Spec, environment: Environment):
        super().__init__(spec, environment)
        if spec.constant("sequence_length") < 1:
            raise ValueError(f"`sequence_length` must be at least 1, got {spec.constant('sequence_length')}")
        policy = spec.constant("last_sequence_policy")
        if policy not in _POLICIES:
            raise ValueError(f"`last_sequence_policy` is {policy!r}; supported are {', '.join(map(repr, _POLICIES))}")
        prepare_decoding()

    @classmethod
    def why_whole(cls, spec: Spec) -> str:
        return "a batch is a stretch of one video"

    @classmethod
    def port(cls) -> object:
        """The object that accepts fed data."""
        from .fed_videos import FilmPort

        return FilmPort

    def infer(self, dtypes: list[DALIDataType | None]) -> list[DALIDataType | None]:
        return [DALIDataType.UINT8]

    def prepare(self, inputs: list[Batch], arguments: Arguments, iteration: Iteration) -> Preparation:
        part: Any = iteration.fed[self.spec.name]
        if isinstance(part, BaseException):
            raise part
        output = Batch(part.shapes, part.dtype, part.layout)
        output.reserve(self.environment.allocate)
        yield PythonJob([0], lambda _: part.film.read(part.first, output))
        return output

    def plan(self, inputs: list[Batch], arguments: Arguments, iteration: Iteration) -> Planned:
        return Planned([iteration.prepared])
