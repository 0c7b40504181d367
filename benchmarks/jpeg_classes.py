"""JPEG files by class (size, quality, sampling, coding), and both decoders on them, by processor time of the thread."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from .harness import Table

_ROUNDS = 7


def classes(paths: list[str]) -> dict[str, list[bytes]]:
    """Files by class, made of the photographs at `paths`. The photographs themselves are the first two classes."""
    import cv2

    originals = [Path(path).read_bytes() for path in paths]
    images = [cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR) for data in originals[:32]]
    found = {"as they are, 4:2:0": [], "as they are, 4:4:4": []}  # type: dict[str, list[bytes]]
    for data in originals:
        sampling = data[data.index(b"\xff\xc0") + 11]
        found[f"as they are, {'4:2:0' if sampling == 0x22 else '4:4:4'}"].append(data)

    def encoded(pictures: list[Any], quality: int, sampling: str = "420", *more: int) -> list[bytes]:
        factor = getattr(cv2, f"IMWRITE_JPEG_SAMPLING_FACTOR_{sampling}")
        options = [cv2.IMWRITE_JPEG_QUALITY, quality, cv2.IMWRITE_JPEG_SAMPLING_FACTOR, factor, *more]
        return [cv2.imencode(".jpg", picture, options)[1].tobytes() for picture in pictures]

    for quality in (30, 50, 75, 90, 98):
        found[f"quality {quality}, 4:2:0"] = encoded(images, quality)
    found["quality 90, 4:2:2"] = encoded(images, 90, "422")
    found["quality 90, 4:4:0"] = encoded(images, 90, "440")
    found["quality 90, 4:4:4"] = encoded(images, 90, "444")
    found["quality 90, optimised codes"] = encoded(images, 90, "420", cv2.IMWRITE_JPEG_OPTIMIZE, 1)
    found["quality 90, restart every 4 MCUs"] = encoded(images, 90, "420", cv2.IMWRITE_JPEG_RST_INTERVAL, 4)
    grey = [cv2.cvtColor(image, cv2.COLOR_BGR2GRAY) for image in images]
    found["quality 90, grey"] = [cv2.imencode(".jpg", image, [cv2.IMWRITE_JPEG_QUALITY, 90])[1].tobytes() for image in grey]
    for size in (64, 128, 224):
        small = [cv2.resize(image, (size, size), interpolation=cv2.INTER_AREA) for image in images]
        found[f"{size}x{size}, quality 85"] = encoded(small, 85)
        found[f"{size}x{size}, quality 85, optimised codes"] = encoded(small, 85, "420", cv2.IMWRITE_JPEG_OPTIMIZE, 1)
    tiles = [[cv2.resize(images[4 * row + column], (800, 600)) for column in range(3)] for row in range(3)]
    large = cv2.resize(np.vstack([np.hstack(row) for row in tiles]), (4000, 3000))
    noise = np.random.default_rng(0).normal(0, 3, large.shape)
    large = np.clip(large + noise, 0, 255).astype(np.uint8)  # sensor noise, which enlarging removed
    for quality in (85, 95):
        found[f"12 megapixels, quality {quality}"] = encoded([large], quality)
    progressive = (cv2.IMWRITE_JPEG_PROGRESSIVE, 1)
    for quality in (75, 90):
        found[f"progressive, quality {quality}"] = encoded(images, quality, "420", *progressive)
    found["progressive, quality 90, 4:4:4"] = encoded(images, 90, "444", *progressive)
    found["progressive, 12 megapixels"] = encoded([large], 85, "420", *progressive)
    return found


class _Decoder:
    """Decodes files whole or in windows: by our own decoder (and its fallback) or by libjpeg-turbo alone."""

    def __init__(self, own: bool, index: int = 0):
        from asyncdali.codecs.jpeg import jpeg_kernels, jpeg_library

        self._kernels = jpeg_kernels
        table = jpeg_library.function_table()
        assert table is not None
        self._table = table
        self._own = jpeg_library.own_decoder(table) if own else 0
        self._index = index
        self.counts = np.zeros(len(jpeg_kernels.COUNT_NAMES), np.int64)

    def prepare(self, files: list[bytes], windows: list[tuple[float, float, float, float]] | None) -> Callable[[], None]:
        """A function that decodes the files once: whole, or the windows (fractions x, y, w, h)."""
        from asyncdali.codecs.jpeg import progressive
        from asyncdali.codecs.jpeg.jpeg_tables import JPEG_HEADER, STORED_IMAGE

        kernels = self._kernels
        datas = [np.frombuffer(data, np.uint8) for data in files]
        sizes = np.array([data.size for data in datas])
        addresses = np.array([data.ctypes.data for data in datas])
        headers = kernels.read_headers(addresses, sizes)[0]
        images = headers[:, JPEG_HEADER.span("width", "orientation")].copy()
        extents = images[:, [STORED_IMAGE.word.height, STORED_IMAGE.word.width]]
        anchors = np.zeros_like(extents)
        if windows is not None:
            part = np.array(windows)
            anchors = (extents * part[:, 1::-1]).astype(np.int64)
            extents = np.clip((extents * part[:, 3:1:-1]).astype(np.int64), 1, extents - anchors)
        found = kernels.windows_of(headers, images, (anchors, extents), np.array([3]), 1, sizes if self._own else None)
        scratch_bytes, turned = kernels.scratch_bytes(found.widest, found.turned, found.own_room)
        outputs = [np.empty(shape, np.uint8) for shape in found.shapes]
        targets = np.array([output.ctypes.data for output in outputs])
        scratch, text = np.zeros(scratch_bytes + 64, np.uint8), np.zeros(256, np.uint8)
        thread = np.array([scratch.ctypes.data + -scratch.ctypes.data % 64, scratch_bytes, text.ctypes.data, text.size])
        context = kernels.context_of(
            self._table.ctypes.data,
            kernels.JpegArrays(addresses.ctypes.data, sizes.ctypes.data, found.records.ctypes.data, targets.ctypes.data), turned=turned,
            own=kernels.OwnDecoder(
                self._own, progressive.decode_scans.address, found.own_room, self.counts.ctypes.data, self._index
            ),
        )  # fmt: skip
        keep = (datas, sizes, addresses, found, outputs, targets, scratch, text)

        def decode() -> None:
            for sample in range(len(keep[0])):
                if kernels.decode_step(context.ctypes.data, sample, thread.ctypes.data) != 0:
                    raise RuntimeError("a file was not decoded")

        return decode


def _windows(count: int) -> list[tuple[float, float, float, float]]:
    """Windows of random resized crops: area 0.08 to 1, aspect 3/4 to 4/3, as fractions."""
    random = np.random.default_rng(5)
    found: list[tuple[float, float, float, float]] = []
    while len(found) < count:
        area, aspect = random.uniform(0.08, 1), np.exp(random.uniform(np.log(3 / 4), np.log(4 / 3)))
        w, h = np.sqrt(area * aspect), np.sqrt(area / aspect)
        if w <= 1 and h <= 1:
            found.append((random.uniform(0, 1 - w), random.uniform(0, 1 - h), w, h))
    return found


def _processor_time(call: Callable[[], None], repeats: int) -> float:
    begun = time.thread_time()
    for _ in range(repeats):
        call()
    return (time.thread_time() - begun) / repeats


def decoders(paths: list[str], only: str = "") -> Table:
    """Microseconds of processor time per picture, ours and libjpeg-turbo's in turn: whole, in windows of random resized crops, and in the
    same windows when an earlier epoch of other windows has noted the files' block positions."""
    from asyncdali.codecs.jpeg import block_positions as positions

    columns = ["files", "KB", "handed over", "whole us", "turbo us", "ratio", "crops us", "turbo us", "ratio", "later us", "ratio"]
    table = Table("JPEG decoders, processor time of the thread", ["class", *columns])
    index = positions.index(100_000_000).ctypes.data
    for name, files in classes(paths).items():
        if only not in name:
            continue
        row: list[Any] = []
        handed = ""
        files = files * 8 if len(files) == 1 else files  # several windows of the same picture
        both = _windows(2 * len(files))
        for windows in (None, both[: len(files)]):
            known = [] if windows is None else [_Decoder(True, index)]
            contenders = [_Decoder(True), _Decoder(False), *known]
            for decoder in known:
                decoder.prepare(files, both[len(files) :])()
            calls = [decoder.prepare(files, windows) for decoder in contenders]
            times: list[list[float]] = [[] for _ in calls]
            for call in calls:
                call()
            repeats = max(1, int(0.03 / _processor_time(calls[1], 1)))
            for _ in range(_ROUNDS):
                for taken, call in zip(times, calls, strict=True):
                    taken.append(_processor_time(call, repeats))
            ours, turbos, *later = (statistics.median(taken) / len(files) * 1e6 for taken in times)
            row += [f"{ours:.0f}", f"{turbos:.0f}", _ratio(times[1], times[0])]
            row += [f"{later[0]:.0f}", _ratio(times[1], times[2])] if later else []
            counts = contenders[0].counts
            handed = handed or f"{counts[1] / counts[:2].sum():.0%}"
        table.add(name, len(files), f"{sum(map(len, files)) / len(files) / 1000:.0f}", handed, *row)
    return table


def _ratio(theirs: list[float], ours: list[float]) -> str:
    return f"{statistics.median(a / b for a, b in zip(theirs, ours, strict=True)):.2f}"
