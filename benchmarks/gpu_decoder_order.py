"""``python -m benchmarks.gpu_decoder_order PROCESSES``: when nvJPEG writes pictures, while several processes use the GPU.

Each process calls nvJPEG alone, without a pipeline. Before a batch its targets are filled with one byte. Behind the batch, in the stream's
order, the targets are copied. Pictures of the copy are compared with those of a calm run. There are two ways to call the engines:

- "queued": the fill is queued on the stream, behind slow work. A picture that is still filled was skipped, or written before the fill.
- "waited": the host waits for the fill before it calls nvJPEG. A picture that is still filled was skipped, or written after the copy.

The target of a wrong picture is read again 0.2 seconds later: a decoder that writes late has written it by then. The slow work multiplies
matrices, and every fifth batch has none.
"""

from __future__ import annotations

import argparse
import io
import os
import subprocess
import sys
import time
from typing import Any

import numpy as np

_FILL = 0xA7
_BATCH = 64


def _files(count: int) -> tuple[list[np.ndarray], list[tuple[int, int]]]:
    """JPEGs of smooth noise, and their heights and widths."""
    from PIL import Image

    files, sizes = [], []
    for k in range(count):
        small = np.random.default_rng(k).integers(0, 255, (9, 9, 3), np.uint8)
        size = (90 + 3 * (k % 40), 170) if k % 2 else (300 + 8 * k, 375)
        data = io.BytesIO()
        Image.fromarray(small).resize(size).save(data, "JPEG")
        files.append(np.frombuffer(data.getvalue(), np.uint8))
        sizes.append((size[1], size[0]))
    return files, sizes


class _Decoder:
    """nvJPEG's batched decoder on the engines (with `hybrid`, on the multiprocessors), and one target for each file."""

    def __init__(self, files: list[np.ndarray], sizes: list[tuple[int, int]], hybrid: bool):
        import cupy

        from asyncdali.device.cuda import nvjpeg_library as nvjpeg

        library = nvjpeg.load()
        assert library is not None, "nvJPEG was not found"
        self._library, self._files, self._sizes = library, files, sizes
        self._handle = library.handle("CreateEx", nvjpeg.BACKEND_GPU_HYBRID if hybrid else nvjpeg.BACKEND_HARDWARE, None, None, 0)
        self._state = library.handle("JpegStateCreate", self._handle)
        self.stream = cupy.cuda.Stream(non_blocking=True)
        self._places = np.cumsum([0, *(height * width * 3 for height, width in sizes)])
        self.target = cupy.zeros(int(self._places[-1]), np.uint8)
        self._data = np.array([file.ctypes.data for file in files], np.int64)
        self._lengths = np.array([file.size for file in files], np.int64)
        self._images = np.zeros(len(files), nvjpeg.IMAGE)
        self._images["channel"][:, 0] = self.target.data.ptr + self._places[:-1]
        self._images["pitch"][:, 0] = [3 * width for _, width in sizes]
        self._output = nvjpeg.OUTPUT_RGBI

    def decode(self) -> None:
        self._library.call("DecodeBatchedInitialize", self._handle, self._state, len(self._files), 1, self._output)
        self._library.call(
            "DecodeBatched", self._handle, self._state, self._data.ctypes.data, self._lengths.ctypes.data, self._images.ctypes.data,
            self.stream.ptr,
        )  # fmt: skip

    def pictures(self, memory: Any) -> list[np.ndarray]:
        """The pictures in a copy of the target."""
        host = memory.get(stream=self.stream)
        self.stream.synchronize()
        return [
            host[start : start + height * width * 3].reshape(height, width * 3) for start, (height, width) in zip(self._places, self._sizes)
        ]


def _kind(found: np.ndarray, late: np.ndarray, expected: np.ndarray) -> str:
    """The fault of a picture. `late`: the contents of its target 0.2 seconds later."""
    filled = (found == _FILL).all(1)
    if filled.all():
        text = "not written"
    elif filled.any():
        text = f"{'the last row' if filled[-1] else 'earlier rows'} not written"
    else:
        text = "other bytes"
    return text + (", right later" if np.array_equal(late, expected) else ", changed later" if not np.array_equal(late, found) else "")


def one(rank: int, seconds: float, batch: int, hybrid: bool) -> None:
    """Decode in both ways in turns, and print the counts."""
    import cupy

    decoder = _Decoder(*_files(batch), hybrid)
    for _ in range(3):
        decoder.target.fill(0)
        cupy.cuda.Device().synchronize()
        decoder.decode()
        cupy.cuda.Device().synchronize()
        expected = decoder.pictures(decoder.target)
        time.sleep(0.02)
    copy, busy = cupy.empty_like(decoder.target), cupy.ones((2048, 2048), np.float32)
    counts = {"queued": 0, "waited": 0}
    wrong: dict[str, dict[str, int]] = {"queued": {}, "waited": {}}
    batches = {"queued": 0, "waited": 0}
    end = time.monotonic() + seconds
    turn = rank
    while time.monotonic() < end:
        turn += 1
        way = "queued" if turn % 2 else "waited"
        with decoder.stream:
            for _ in range(turn % 5):
                busy = busy @ busy * np.float32(1e-4)
            cupy.cuda.runtime.memsetAsync(decoder.target.data.ptr, _FILL, decoder.target.nbytes, decoder.stream.ptr)
            if way == "waited":
                decoder.stream.synchronize()
            decoder.decode()
            cupy.copyto(copy, decoder.target)
        found = decoder.pictures(copy)
        counts[way] += batch
        bad = [k for k in range(batch) if not np.array_equal(found[k], expected[k])]
        if bad:
            batches[way] += 1
            time.sleep(0.2)
            late = decoder.pictures(decoder.target)
            for k in bad:
                kind = _kind(found[k], late[k], expected[k])
                wrong[way][kind] = wrong[way].get(kind, 0) + 1
    for way, count in counts.items():
        sys.stdout.write(f"process {rank}, {way}: {count} pictures, batches with wrong ones {batches[way]}: {wrong[way] or 'none'}\n")
    sys.stdout.flush()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("processes", type=int)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--batch", type=int, default=_BATCH)
    parser.add_argument("--hybrid", action="store_true", help="nvJPEG's decoder on the multiprocessors")
    parser.add_argument("--rank", type=int, default=-1, help="of one process; the program gives it to those that it starts")
    options = parser.parse_args()
    if options.rank >= 0:
        one(options.rank, options.seconds, options.batch, options.hybrid)
        return
    command = [sys.executable, "-m", "benchmarks.gpu_decoder_order", str(options.processes), "--seconds", str(options.seconds)]
    command += ["--batch", str(options.batch), *(["--hybrid"] if options.hybrid else []), "--rank"]
    running = [subprocess.Popen([*command, str(rank)], env=dict(os.environ)) for rank in range(options.processes)]
    failed = [process.wait() for process in running]
    if any(failed):
        raise SystemExit(f"statuses of the processes: {failed}")


if __name__ == "__main__":
    main()
