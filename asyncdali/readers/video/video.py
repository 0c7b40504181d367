"""readers.video and experimental.readers.video: sequences of frames from video files."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...batch import Batch
from ...codecs.image_decoding import convert
from ...codecs.video.video_frames import prepare_decoding
from ...codecs.video.video_padding import MISSING, PAD_MODES, check_fill_value, check_pad_mode
from ...messages.notices import warn
from ...operators.base import REQUIRED, Arg, Arguments, Environment, Iteration, Planned, Preparation, PythonJob, Schema, Spec, register
from ...types import DALIDataType, DALIImageType
from ..base import READER_ARGS, Origin, ReaderOperator
from ..containers.containers import RecordNames
from ..digest import names_of_paths
from ..files.batch_files import BatchFiles
from ..files.entries import ENTRY_ARGS, EntryRules
from ..files.file_table import FileTable, scan_classes
from ..remote.remote import Opener
from .video_files import MAX_IDLE, VideoFile, VideoPool, index_video
from .video_sequences import ListedVideo, Pattern, all_sequences, frame_bounds, rate_bounds, read_video_list, time_bounds

_FORMATS = ("timestamps", "frames")
_ROUNDING = {
    "start_down_end_up": (False, True), "start_up_end_down": (True, False), "all_up": (True, True), "all_down": (False, False),
}  # fmt: skip
_FRAME_NUMBERS: dict[Any, str] = {False: "none", True: "scalar", None: "none", "none": "none", "scalar": "scalar", "sequence": "sequence"}

_SOURCES = ("filenames", "file_root", "file_list")
_SOURCE_ARGS = (
    Arg("filenames", "str_list", [], "The videos.", path="read"),
    Arg("file_root", "str", "", "Directory of classes: the files in each of its sub-directories, which are numbered in byte order.",
        path="read"),
    Arg("labels", "int_list", None, "Labels of `filenames`."),
    Arg("sequence_length", "int", REQUIRED, "Frames of a sequence.", stream=True),
    Arg("stride", "int", 1, "Frames between those of a sequence.", stream=True),
    Arg("step", "int", -1, "Frames between the starts of sequences; 0 and below: `sequence_length` * `stride`.", stream=True),
    Arg("image_type", "image_type", DALIImageType.RGB, "Colour space of the frames: RGB or YCbCr."),
    Arg("enable_frame_num", "any", "none",
        'An output with frame numbers: "scalar" (or True) of the first frame, "sequence" of each (-1 for filled ones).'),
    Arg("enable_timestamps", "bool", False, "An output with the time of each frame in seconds (-1 for filled ones)."),
    *ENTRY_ARGS,
)  # fmt: skip
_OUTPUTS_DOC = """Outputs: frames (UINT8, FHWC); the label (INT32, shape (1,)) with `labels`, `file_root` or `file_list`; frame numbers
        (INT32, shape (1,) or (F,)) with `enable_frame_num`; times in seconds (FLOAT64, shape (F,)) with `enable_timestamps`.

        Needs PyAV (``asyncdali[video]``) and decodes the codecs of its FFmpeg. A file that cannot be opened is skipped with a warning."""


def _outputs(constants: dict[str, object]) -> int:
    labelled = constants.get("labels") is not None or bool(constants.get("file_root")) or bool(constants.get("file_list"))
    return 1 + labelled + (_frame_numbers(constants.get("enable_frame_num", "none")) != "none") + bool(constants.get("enable_timestamps"))


def _frame_numbers(value: object) -> str:
    """The value of `enable_frame_num`. ValueError for invalid values."""
    if isinstance(value, (bool, str, type(None))) and value in _FRAME_NUMBERS:
        return _FRAME_NUMBERS[value]
    raise ValueError(f"Invalid enable_frame_num value: {value!r}. Valid values are: 'none', 'scalar', 'sequence' (or False, True).")


class _VideoReader(ReaderOperator):
    """The shared part of both readers: finding sequences, decoding, outputs. For a GPU the CPU decodes and the frames are uploaded."""

    on_cuda = True

    def __init__(self, spec: Spec, environment: Environment):
        constant = spec.constant
        for name in ("sequence_length", "stride"):
            if constant(name) < 1:
                raise ValueError(f"`{name}` must be positive, got {constant(name)}")
        self._type = constant("image_type")
        if self._type not in (DALIImageType.RGB, DALIImageType.YCbCr):
            raise ValueError(f"Invalid image type: {self._type.name}; video frames are RGB or YCbCr")
        if sum(bool(constant(name)) for name in _SOURCES) > 1 or not any(spec.given(name) for name in _SOURCES):
            raise RuntimeError("Only one of the following arguments can be provided: `file_list`, `file_root`, `filenames`; one must be")
        self._numbers = _frame_numbers(constant("enable_frame_num"))
        self._labels = self._given_labels(spec)
        prepare_decoding()
        super().__init__(spec, environment)

    # --- implemented by each reader

    dtype = DALIDataType.UINT8
    fill: list[int] = [0]  # noqa: RUF012  read only

    def pattern(self) -> Pattern:
        """Which frames make a sequence."""
        raise TypeError("abstract")

    def bounds(self, listed: ListedVideo, video: VideoFile) -> tuple[int, int]:
        """First and end frame for a line of `file_list`. ValueError if there are none."""
        raise TypeError("abstract")

    def _given_labels(self, spec: Spec) -> list[int] | None:
        labels, files = spec.constant("labels"), spec.constant("filenames")
        if labels is not None and len(labels) != len(files):
            raise RuntimeError(f"Number of provided files and labels should match. Provided {len(files)} files and {len(labels)} labels.")
        result: list[int] | None = labels
        return result

    # --- discovery

    def discover(self) -> int:
        listed = self._list_videos()
        if not listed:
            raise RuntimeError("No files were read.")
        self._videos: list[VideoFile] = []
        self._unreadable: list[str] = []
        known: dict[str, int] = {}
        parts = []
        for item in listed:
            video = self._video(item.path, known)
            if video is not None:
                start, stop = self._part(item, self._videos[video])
                parts.append((video, start, stop, item.label))
        self._pattern = self.pattern()
        self._sequences = all_sequences(parts, self._pattern)
        if not len(self._sequences):
            left_out = f" The first file that was skipped: {self._unreadable[0]}" if self._unreadable else ""
            raise RuntimeError(f"None of the {len(listed)} videos has the {self._pattern.need} frames that a sequence needs.{left_out}")
        self._pool = VideoPool(self._videos)
        table = FileTable.of([video.path for video in self._videos], np.zeros(len(self._videos), np.int32))
        # Whole files, because a demultiplexer reads back and forth, and the next batch usually needs the same video again.
        self._files = BatchFiles(self, table, lambda samples: self._sequences.videos[samples], recent=MAX_IDLE)
        return len(self._sequences)

    def origin_of(self, index: int) -> Origin:
        sequences = self._sequences
        return Origin(self._videos[int(sequences.videos[index])].path, part=f"from frame {int(sequences.first[index])}")

    def identity(self) -> list[bytes | np.ndarray]:
        return [names_of_paths([video.path for video in self._videos]), self._sequences.videos]

    def _list_videos(self) -> list[ListedVideo]:
        constant = self.spec.constant
        if constant("file_list"):
            listed = read_video_list(constant("file_list"))
            rules = EntryRules.of(self.spec, self.environment.access, constant("file_list"), None, "")
            rules.check([item.path for item in listed])
            return listed
        if constant("file_root"):
            table = scan_classes(constant("file_root"), ["*"], None, True)
            files, labels = [table.path(index) for index in range(len(table))], table.labels.tolist()
        else:
            files = constant("filenames")
            labels = self._labels or [0] * len(files)
        return [ListedVideo(name, label, None, None, "") for name, label in zip(files, labels, strict=True)]

    def _video(self, path: str, known: dict[str, int]) -> int | None:
        """The number of a video. It is opened at its first mention; None if it cannot be opened."""
        if path not in known:
            try:
                self._videos.append(index_video(path))
                known[path] = len(self._videos) - 1
            except RuntimeError as error:
                warn(f"{self.schema.name} skips a file. {error}", UserWarning)
                self._unreadable.append(str(error))
                known[path] = -1
        return known[path] if known[path] >= 0 else None

    def _part(self, listed: ListedVideo, video: VideoFile) -> tuple[int, int]:
        try:
            start, stop = self.bounds(listed, video) if listed.where else (0, len(video))
        except ValueError as error:
            raise RuntimeError(f"{listed.where}: {listed.path}: {error}") from error
        if start >= stop:
            warn(f"{self.schema.name}: {listed.where}: no frames of {listed.path} are between start and end (frames [{start}, {stop}))",
                 UserWarning)  # fmt: skip
        return start, stop

    # --- one iteration

    def infer(self, dtypes: list[DALIDataType | None]) -> list[DALIDataType | None]:
        found: list[DALIDataType | None] = [self.dtype]
        if self._has_labels:
            found.append(DALIDataType.INT32)
        if self._numbers != "none":
            found.append(DALIDataType.INT32)
        if self.spec.constant("enable_timestamps"):
            found.append(DALIDataType.FLOAT64)
        return found

    @property
    def _has_labels(self) -> bool:
        return self._labels is not None or bool(self.spec.constant("file_root")) or bool(self.spec.constant("file_list"))

    def prepare(self, inputs: list[Batch], arguments: Arguments, iteration: Iteration) -> Preparation:
        self.order  # noqa: B018  a lazy reader looks for its data now
        draw, sequences = self.draw(iteration, arguments.count), self._sequences
        indices = draw.indices
        frames = np.empty((len(indices), self._pattern.length), np.int64)
        videos = sequences.videos[indices]
        for sample, index in enumerate(indices.tolist()):
            first, start, stop = (int(column[index]) for column in (sequences.first, sequences.starts, sequences.stops))
            frames[sample] = self._pattern.frames(first, start, stop)
        extents = [(self._pattern.length, self._videos[video].height, self._videos[video].width, 3) for video in videos.tolist()]
        names = RecordNames(lambda index: self._videos[int(sequences.videos[index])].path, indices)
        output = Batch(np.array(extents, np.int64).reshape(-1, 4), self.dtype, "FHWC", source_info=names)
        output.reserve(self.environment.allocate)
        open_file = self._files.opener(draw)
        yield from self._files.hints(draw)
        yield PythonJob(
            range(len(indices)), lambda sample: self._decode(int(videos[sample]), frames[sample], output.sample(sample), open_file)
        )
        return indices, frames, output

    def _decode(self, video: int, frames: np.ndarray, target: np.ndarray, open_file: Opener) -> None:
        with self._pool.borrow(video, open_file) as opened:
            plain = self._type == DALIImageType.RGB and self.dtype == DALIDataType.UINT8
            opened.read(frames, target, self.fill, None if plain else self.convert)

    def convert(self, image: np.ndarray, target: np.ndarray) -> None:
        """Write an RGB frame (uint8 HWC) into its place."""
        target[...] = image if self._type == DALIImageType.RGB else convert(image, self._type, DALIDataType.UINT8)

    def plan(self, inputs: list[Batch], arguments: Arguments, iteration: Iteration) -> Planned:
        indices, frames, output = iteration.prepared
        outputs = [output]
        if self._has_labels:
            outputs.append(Batch.from_values(self._sequences.labels[indices].astype(np.int32).reshape(-1, 1)))
        if self._numbers != "none":
            shown = frames if self._numbers == "sequence" else frames[:, :1]
            outputs.append(Batch.from_values(np.ascontiguousarray(shown, np.int32)))
        if self.spec.constant("enable_timestamps"):
            outputs.append(Batch.from_values(self._seconds(indices, frames)))
        for output in outputs[1:]:
            output.source_info = outputs[0].source_info
        return Planned(outputs)

    def _seconds(self, indices: np.ndarray, frames: np.ndarray) -> np.ndarray:
        seconds = np.full(frames.shape, -1.0)
        for row, numbers, video in zip(seconds, frames, self._sequences.videos[indices].tolist(), strict=True):
            there = numbers != MISSING
            row[there] = self._videos[video].seconds(numbers[there])
        return seconds

    def close(self) -> None:
        super().close()
        pool = getattr(self, "_pool", None)
        if pool is not None:
            pool.close()


@register
class ExperimentalVideoReader(_VideoReader):
    schema = Schema(
        name="experimental.readers.video",
        doc=f"""Reads sequences of frames from video files.

        A sequence has `sequence_length` frames, `stride` apart; one starts every `step` frames, as long as `sequence_length` * `stride`
        frames are left. With a `pad_mode` other than "none", the remaining frames make one more sequence, which is filled up.

        {_OUTPUTS_DOC}""",
        inputs=(0, 0),
        outputs=_outputs,
        devices=("cpu", "gpu"),
        seeded=True,
        args=(
            *_SOURCE_ARGS,
            Arg("file_list", "str", "", "Text file of lines `path label [start [end]]`; paths are used unchanged.", path="read"),
            Arg("file_list_format", "str", "timestamps", 'Unit of start and end: "timestamps" (seconds) or "frames".', stream=True,
                choices=_FORMATS),
            Arg("file_list_rounding", "str", "start_down_end_up",
                "How times between frames and fractions of frames are rounded: start_down_end_up, start_up_end_down, all_up, all_down.",
                stream=True, choices=tuple(_ROUNDING)),
            Arg("file_list_include_end", "bool", True, "No effect, as in DALI: the end is the first frame that is not read.", inert=True),
            Arg("pad_mode", "str", "none",
                'Frames after the end: "none" (sequences end with the video), "constant" (`fill_value`), "edge" (or '
                '"repeat"), "reflect_1001" (or "symmetric"), "reflect_101" (or "reflect").', stream=True, choices=tuple(PAD_MODES)),
            Arg("fill_value", "int_list", [0], 'Value for `pad_mode="constant"`: one (0 to 255), or one per channel.'),
            Arg("uniform_sample", "bool", False,
                "One sequence per video (or part), spread evenly over it; `stride`, `step` and `pad_mode` are then ignored.", stream=True),
            *READER_ARGS,
        ),
    )  # fmt: skip

    def __init__(self, spec: Spec, environment: Environment):
        constant = spec.constant
        check_pad_mode(constant("pad_mode"))
        if constant("file_list_format") not in _FORMATS:
            raise ValueError(f"Invalid file_list_format: {constant('file_list_format')}; it is 'timestamps' or 'frames'")
        if constant("file_list_rounding") not in _ROUNDING:
            raise ValueError(f"Invalid file_list_rounding: {constant('file_list_rounding')}; it is one of {', '.join(_ROUNDING)}")
        self.fill = constant("fill_value")
        check_fill_value(self.fill)
        for name in ("stride", "step", "pad_mode"):
            if constant("uniform_sample") and spec.given(name):
                warn(f"uniform_sample=True: the `{name}` argument is ignored.", UserWarning)
        super().__init__(spec, environment)

    def pattern(self) -> Pattern:
        constant = self.spec.constant
        length, stride, uniform = constant("sequence_length"), constant("stride"), constant("uniform_sample")
        return Pattern(length, stride, constant("step"), PAD_MODES[constant("pad_mode")], length * stride, uniform=uniform)

    def bounds(self, listed: ListedVideo, video: VideoFile) -> tuple[int, int]:
        rounding = _ROUNDING[self.spec.constant("file_list_rounding")]
        if self.spec.constant("file_list_format") == "frames":
            return frame_bounds(listed.start, listed.stop, len(video), rounding)
        return time_bounds(listed.start, listed.stop, video.times, video.tick, rounding)


@register
class VideoReader(_VideoReader):
    schema = Schema(
        name="readers.video",
        doc=f"""Reads sequences of frames from video files.

        A sequence has `sequence_length` frames, `stride` apart; one starts every `step` frames, as long as its last frame is there.
        With `pad_sequences` it may also end behind the video; missing frames are zero.

        {_OUTPUTS_DOC}""",
        inputs=(0, 0),
        outputs=_outputs,
        devices=("cpu", "gpu"),
        seeded=True,
        aliases=("video_reader",),
        args=(
            *_SOURCE_ARGS,
            Arg("file_list", "str", "", "Text file of lines `path label [start [end]]`, in seconds; paths are used unchanged.",
                path="read"),
            Arg("file_list_frame_num", "bool", False, "Start and end in `file_list` are frame numbers; negative ones count from the end.",
                stream=True),
            Arg("file_list_include_preceding_frame", "bool", False,
                "Times between frames are rounded outwards (start down, end up) instead of inwards.", stream=True),
            Arg("pad_sequences", "bool", False, "Sequences may end after the last frame of the video.", stream=True),
            Arg("dtype", "dtype", DALIDataType.UINT8, "Element type: UINT8 or FLOAT."),
            Arg("normalized", "bool", False, "FLOAT frames from 0 to 1 instead of 0 to 255."),
            Arg("channels", "int", 3, "Channels of the frames: 3."),
            Arg("skip_vfr_check", "bool", False, "Accept videos of variable frame rate."),
            Arg("additional_decode_surfaces", "int", 2, "No effect: frames are decoded by the CPU.", inert=True),
            *READER_ARGS,
        ),
    )  # fmt: skip

    def __init__(self, spec: Spec, environment: Environment):
        constant = spec.constant
        self.dtype = constant("dtype")
        if self.dtype not in (DALIDataType.UINT8, DALIDataType.FLOAT):
            raise ValueError(f"`dtype` is {self.dtype.name}; video frames are UINT8 or FLOAT")
        if constant("normalized") and self.dtype != DALIDataType.FLOAT:
            raise ValueError("`normalized` needs dtype=types.FLOAT: UINT8 has no values between 0 and 1")
        if constant("channels") != 3:
            raise ValueError(f"`channels` is {constant('channels')}; video frames have 3")
        if constant("additional_decode_surfaces") < 0:
            raise ValueError(f"`additional_decode_surfaces` must not be negative, got {constant('additional_decode_surfaces')}")
        super().__init__(spec, environment)

    def _given_labels(self, spec: Spec) -> list[int] | None:
        empty = spec.constant("labels") == [] and not spec.constant("file_root") and not spec.constant("file_list")
        return list(range(len(spec.constant("filenames")))) if empty else super()._given_labels(spec)

    def pattern(self) -> Pattern:
        constant = self.spec.constant
        length, stride, padded = constant("sequence_length"), constant("stride"), "constant" if constant("pad_sequences") else "none"
        return Pattern(length, stride, constant("step"), padded, 1 + (length - 1) * stride, every_start=True)

    def _video(self, path: str, known: dict[str, int]) -> int | None:
        new = path not in known
        number = super()._video(path, known)
        if new and number is not None and not self.spec.constant("skip_vfr_check"):
            _refuse_variable_rate(self._videos[number])
        return number

    def bounds(self, listed: ListedVideo, video: VideoFile) -> tuple[int, int]:
        if self.spec.constant("file_list_frame_num"):
            return frame_bounds(listed.start, listed.stop, len(video), _ROUNDING["start_up_end_down"])
        if not video.rate:
            raise ValueError("the file has no frame rate, so times cannot be converted to frames")
        return rate_bounds(listed.start, listed.stop, len(video), video.rate, self.spec.constant("file_list_include_preceding_frame"))

    def convert(self, image: np.ndarray, target: np.ndarray) -> None:
        super().convert(image, target)
        if self.spec.constant("normalized"):
            target *= np.float32(1 / 255)


def _refuse_variable_rate(video: VideoFile) -> None:
    """Raise RuntimeError if frames are not equally spaced, up to one tick of rounding."""
    gaps = np.diff(video.times).tolist()
    if gaps and max(gaps) - min(gaps) > 1:
        raise RuntimeError(
            f"Variable frame rate videos are not supported: {video.path} has frames {float(min(gaps) * video.tick):g} to "
            f"{float(max(gaps) * video.tick):g} s apart; `skip_vfr_check` accepts it"
        )
