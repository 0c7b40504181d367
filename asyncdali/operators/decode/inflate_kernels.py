"""Compiled step of ``decoders.inflate``: LZ4 blocks (github.com/lz4/lz4, doc/lz4_Block_format.md)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from ...compiled.addresses import address_of
from ...compiled.intrinsics import copy_bytes, load_i64, smaller, view_i64, view_u8
from ...compiled.step import inlined, step
from ...compiled.tables import laid_out
from ...device.launch import Entry, Kernel, Launch
from ..base import SampleError, Step
from .inflate import INFLATE, INFLATE_CHUNK, INFLATE_RECORD

at, word, chunk_word = INFLATE.at, INFLATE_RECORD.word, INFLATE_CHUNK.word
_BROKEN, _LONGER, _SHORTER = 1, 2, 3
_REASONS = {
    _BROKEN: "is not a valid LZ4 block",
    _LONGER: "decompresses to more bytes than `shape` and `dtype` declare",
    _SHORTER: "decompresses to fewer bytes than `shape` and `dtype` declare",
}
_KERNEL = Kernel(Path(__file__).with_suffix(".cu"), "inflate")
_LANES = 32  # A warp decompresses a chunk.
_MAX_BLOCKS, _MAX_SAMPLES = 4096, 65535
_EXTENDED = 15  # A length with this value continues in the next bytes.
_LEAST_MATCH = 4


@inlined
def _length(data, size, i, begun):
    """(a length that started as `begun`, the offset behind it); the offset is -1 beyond the end of the data."""
    if begun == _EXTENDED:
        while True:
            if i >= size:
                return np.int64(-1), i
            part = np.int64(data[i])
            i += 1
            begun += part
            if part != 255:
                break
    return begun, i


@inlined
def _inflated(source, size, target, room):
    """Decompress a block into `room` bytes: (bytes written, status)."""
    data, out = view_u8(source, size), view_u8(target, room)
    i, o = np.int64(0), np.int64(0)
    while i < size:
        token = np.int64(data[i])
        i += 1
        count, i = _length(data, size, i, token >> 4)
        if count < 0 or count > size - i:
            return o, _BROKEN
        copied = smaller(count, room - o)
        copy_bytes(target + o, source + i, copied)
        i += count
        o += copied
        if copied < count:
            return o, _LONGER
        if i == size:
            return o, 0  # The last sequence has literals only.
        if size - i < 2:
            return o, _BROKEN
        distance = np.int64(data[i]) | np.int64(data[i + 1]) << 8
        i += 2
        if distance == 0 or distance > o:
            return o, _BROKEN
        count, i = _length(data, size, i, token & 15)
        if count < 0:
            return o, _BROKEN
        count += _LEAST_MATCH
        copied = smaller(count, room - o)
        if distance >= copied:
            copy_bytes(target + o, target + o - distance, copied)
        else:  # The match overlaps its own output.
            for k in range(copied):
                out[o + k] = out[o + k - distance]
        o += copied
        if copied < count:
            return o, _LONGER
    return o, _BROKEN


@step
def inflate_step(context, sample, thread):
    """Decompress one sample. A status is that of ``_inflated`` plus four times the number of the chunk."""
    r = view_i64(load_i64(context + at.records) + word.size * sample, word.words)
    source = load_i64(load_i64(context + at.inputs) + 8 * sample)
    target = load_i64(load_i64(context + at.outputs) + 8 * sample)
    room = r[word.bytes]
    for k in range(r[word.chunks]):
        chunk = view_i64(load_i64(context + at.chunks) + chunk_word.size * (r[word.first] + k), chunk_word.words)
        written, status = _inflated(source + chunk[chunk_word.offset], chunk[chunk_word.bytes], target, room)
        exact = load_i64(context + at.exact) != 0
        if status == _LONGER and not exact:
            status = 0
        if status == 0 and exact and written < room:
            status = _SHORTER
        if status != 0:
            return 4 * k + status
        rest = view_u8(target, room)
        for b in range(written, room):
            rest[b] = 0
        target += room
    return 0


def make_inflate_step(
    in_addresses: np.ndarray,
    out_addresses: np.ndarray,
    records: np.ndarray,
    chunks: np.ndarray,
    exact: bool,
    allocate: Callable[[int], np.ndarray],
) -> Step:
    """The step for a batch, from INFLATE_RECORDs and INFLATE_CHUNKs. `allocate` allocates host memory that a GPU can write to."""

    def explain(code: int, text: str, sample: int) -> str:
        return f"chunk {code // 4} of {int(records[sample, word.chunks])} {_REASONS[code % 4]}"

    def entries(statuses: int) -> Sequence[Entry]:
        return INFLATE.entries(
            inputs=in_addresses, outputs=out_addresses, records=records, chunks=chunks, exact=exact, samples=len(records), statuses=statuses
        )

    told: list[np.ndarray] = []

    def launches() -> list[Launch]:
        told[:] = [allocate(8 * max(len(chunks), 1)).view(np.int64)[: len(chunks)]]
        most, samples = int(records[:, word.chunks].max(initial=1)), len(records)
        grid = max(1, min(most, _MAX_BLOCKS)), max(1, min(samples, _MAX_SAMPLES))
        return [Launch(_KERNEL, entries(address_of(told[0])), grid, _LANES)]

    def afterwards() -> None:
        (statuses,) = told
        if statuses.any():
            first = int(np.flatnonzero(statuses)[0])
            sample = int(np.flatnonzero(records[:, word.first] <= first)[-1])
            raise SampleError(sample, explain(4 * (first - int(records[sample, word.first])) + int(statuses[first]), "", sample))

    table, keep = laid_out(entries(0))
    return Step(inflate_step.address, table, explain, keep=keep, launches=launches, afterwards=afterwards)
