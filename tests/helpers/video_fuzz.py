"""Mutated video files through every operator for videos. Run as a program, because a decoder may end the process.

``python -m helpers.video_fuzz FIRST COUNT CORPUS PROGRESS`` mutates the files of a folder with the seeds FIRST ... and prints counts and
faults as JSON. The file PROGRESS has the seed in work.
"""

from __future__ import annotations

import io
import json
import random
import re
import struct
import sys
import tempfile
import time
import warnings
import zlib
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from asyncdali import Pipeline, fn
from asyncdali.codecs.video.video_frames import OpenVideo, open_video, prepare_decoding, read_index

FAMILY = 20
"""Files that share the pipelines of readers."""
LARGEST = 1 << 18
"""Pixels of a frame; larger ones, which mutated headers claim, are only indexed."""
_RAW = re.compile(r"\b(Overflow|Key|Type|Unicode|UnicodeDecode|Attribute|Index|ZeroDivision|Memory)Error\b")
EXTREMES = (0, 1, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0xFFFF, 0x01000000)


def mutated(seed: int, corpus: list[Path]) -> tuple[str, bytes]:
    """A file's name and its bytes with one to eight damages."""
    choose = random.Random(seed)
    path = choose.choice(corpus)
    data = bytearray(path.read_bytes())
    for _ in range(choose.choice((1, 1, 2, 3, 8))):
        if len(data) < 16:
            break
        # Headers are small, so half of the damages are near the beginning or the end.
        area = choose.choice((len(data), len(data), min(len(data), 400), -min(len(data), 400)))
        at = choose.randrange(area) if area > 0 else len(data) + choose.randrange(area, 0)
        way = choose.randrange(8)
        if way <= 1:
            data[at] ^= 1 << choose.randrange(8)
        elif way == 2:
            data[at] = choose.randrange(256)
        elif way == 3:
            data[at : at + 4] = struct.pack(choose.choice("<>") + "I", choose.choice(EXTREMES))
        elif way == 4:
            del data[at : at + choose.randrange(1, 64)]
        elif way == 5:
            data[at:at] = data[choose.randrange(len(data)) :][: choose.randrange(1, 64)]
        elif way == 6:
            data[at : at + choose.randrange(1, 64)] = bytes(choose.randrange(1, 64))
        else:
            del data[max(at, 16) :]
    return path.name, bytes(data)


class Results:
    """The frames of a file by each path: number of the frame -> checksum, or the error."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.faults: list[str] = []
        self.differing: dict[int, str] = {}
        """Seeds of files of which a frame depends on the path, or on what was read before -> what differs."""

    def fault(self, seed: int, name: str, text: str) -> None:
        self.faults.append(f"seed {seed}, {name}: {text}"[:400])

    def differs(self, seed: int, name: str, text: str) -> None:
        self.differing.setdefault(seed, f"seed {seed}, {name}: {text}"[:400])

    def raw(self, seed: int, name: str, error: BaseException) -> None:
        """Count an error, which must be a clear one."""
        if not isinstance(error, (ValueError, RuntimeError)) or isinstance(error, UnicodeError) or _RAW.search(str(error)):
            self.fault(seed, name, f"raw {type(error).__name__}: {error}"[-300:])


def single(results: Results, seed: int, name: str, data: bytes) -> tuple[Any, list[int | None]] | None:
    """The index and the checksums of all frames, one by one from the beginning (None: an error); compares other orders with them."""
    try:
        index = read_index(io.BytesIO(data))
    except Exception as error:
        results.raw(seed, name, error)
        results.counts["refused"] += 1
        return None
    if index.height * index.width > LARGEST or len(index) > 400:
        results.counts["large"] += 1
        return None
    frame = np.empty((1, index.height, index.width, 3), np.uint8)
    video = open_video(io.BytesIO(data))

    def read(number: int) -> int | None:
        nonlocal video
        try:
            video.read(np.array([number]), frame, [0])
            return zlib.crc32(frame)
        except Exception as error:
            results.raw(seed, name, error)
            video.close()
            video = OpenVideo(index, io.BytesIO(data))
            return None

    straight = [read(number) for number in range(len(index))]
    results.counts["frames"] += len(straight)
    results.counts["refused frames"] += straight.count(None)
    choose = random.Random(seed)
    for number in [choose.randrange(len(index)) for _ in range(6)]:
        if choose.random() < 0.3:
            video.close()
            video = OpenVideo(index, io.BytesIO(data))
        if read(number) != straight[number]:
            results.differs(seed, name, f"frame {number} of {len(index)} depends on the order of reading")
            break
    video.close()
    return index, straight


class Operators:
    """`decoders.video` and `experimental.inputs.video`, which take one file after another."""

    def __init__(self) -> None:
        self.data = [np.zeros(1, np.uint8)]
        self.decoder = Pipeline(batch_size=1, num_threads=1, device_id=None, prefetch_queue_depth=1)
        with self.decoder:
            self.decoder.set_outputs(fn.decoders.video(fn.external_source(lambda: self.data, batch=True)))
        self.older = Pipeline(batch_size=1, num_threads=1, device_id=None, prefetch_queue_depth=1)
        with self.older:
            feed = fn.external_source(lambda: self.data, batch=True)
            self.older.set_outputs(fn.experimental.decoders.video(feed, start_frame=1, stride=3))
        self.input = Pipeline(batch_size=4, num_threads=1, device_id=None, prefetch_queue_depth=1)
        with self.input:
            self.input.set_outputs(fn.experimental.inputs.video(name="V", sequence_length=1))
        for pipe in (self.decoder, self.older, self.input):
            pipe.build()

    def compare(self, results: Results, seed: int, name: str, data: bytes, expected: list[int | None]) -> None:
        self.data = [np.frombuffer(data, np.uint8)]
        for pipe, chosen in ((self.decoder, expected), (self.older, expected[1::3])):
            if not chosen:
                continue
            try:
                found = [zlib.crc32(np.ascontiguousarray(frame)) for frame in np.asarray(pipe.run()[0][0])]
            except Exception as error:
                results.raw(seed, name, error)
                if None not in chosen:
                    results.differs(seed, name, f"decoders.video refuses what can be read: {error}"[-300:])
                continue
            if found != chosen:
                results.differs(seed, name, "decoders.video differs")
        self.input.feed_input("V", self.data)
        for first in range(0, len(expected), 4):
            chosen = expected[first : first + 4]
            try:
                found = [zlib.crc32(np.ascontiguousarray(sample)) for sample in self.input.run()[0]]
            except Exception as error:
                results.raw(seed, name, error)
                if None not in chosen:
                    results.differs(seed, name, f"inputs.video refuses what can be read: {error}"[-300:])
                continue
            if found != chosen:
                results.differs(seed, name, f"inputs.video differs at {first}")

    def close(self) -> None:
        for pipe in (self.decoder, self.older, self.input):
            pipe.close()


def readers(results: Results, files: dict[str, tuple[int, Any, list[int | None]]]) -> None:
    """Frames from every reader, in random order."""
    order = {"filenames": list(files), "sequence_length": 1, "random_shuffle": True, "initial_fill": 64, "name": "R"}
    order["enable_frame_num"] = True
    makers = {
        "experimental.readers.video": lambda: fn.experimental.readers.video(**order),
        "readers.video": lambda: fn.readers.video(skip_vfr_check=True, **order),
        "readers.video_resize": lambda: fn.readers.video_resize(skip_vfr_check=True, resize_x=16, resize_y=16, **order),
    }
    for title, maker in makers.items():
        pipe = Pipeline(batch_size=1, num_threads=1, device_id=None, seed=3)
        with pipe:
            pipe.set_outputs(*maker())
        try:
            pipe.build()
            size = pipe.epoch_size("R")
        except Exception as error:
            results.fault(next(iter(files.values()))[0], "a family", f"{title}: {error}"[-300:])
            continue
        wanted = sum(len(expected) for _, _, expected in files.values())
        if size != wanted:
            results.fault(next(iter(files.values()))[0], "a family", f"{title}: {size} frames instead of {wanted}")
        for _ in range(size):
            try:
                frames, numbers = pipe.run()
            except Exception as error:
                path = next((path for path in files if path in str(error)), None)
                if path is None:
                    results.fault(next(iter(files.values()))[0], "a family", f"{title}: the error names no file: {error}"[-300:])
                    continue
                seed, _, expected = files[path]
                results.raw(seed, path, error)
                named = re.search(re.escape(path) + r", frame (\d+)", str(error))
                if named is None or expected[int(named.group(1))] is not None:
                    results.differs(seed, path, f"{title} refuses what can be read: {error}"[-300:])
                continue
            path = frames[0].source_info()
            seed, _, expected = files[path]
            number, frame = int(np.asarray(numbers[0])[0]), np.ascontiguousarray(np.asarray(frames[0])[0])
            if expected[number] is None or (title != "readers.video_resize" and zlib.crc32(frame) != expected[number]):
                results.differs(seed, path, f"{title} differs at frame {number}")
        pipe.close()


def main(first: int, count: int, folder: str, progress: str) -> None:
    warnings.simplefilter("ignore")
    prepare_decoding()
    results, corpus, operators = Results(), sorted(Path(folder).iterdir()), Operators()
    began = time.process_time()
    with tempfile.TemporaryDirectory() as home:
        for family in range(first, first + count, FAMILY):
            files: dict[str, tuple[int, Any, list[int | None]]] = {}
            for seed in range(family, min(family + FAMILY, first + count)):
                Path(progress).write_text(str(seed))
                name, data = mutated(seed, corpus)
                results.counts["files"] += 1
                found = single(results, seed, name, data)
                if found is not None:
                    operators.compare(results, seed, name, data, found[1])
                    path = Path(home, f"{seed}_{name}")
                    path.write_bytes(data)
                    files[str(path)] = (seed, *found)
            if files:
                readers(results, files)
            for path in files:
                Path(path).unlink()
    operators.close()
    differing = list(results.differing.values())
    print(json.dumps({"counts": results.counts, "faults": results.faults, "differing": differing, "seconds": time.process_time() - began}))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4])
