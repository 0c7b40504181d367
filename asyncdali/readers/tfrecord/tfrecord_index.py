"""Index files of TFRecord files: one line ``offset size`` per record, frame included."""

from __future__ import annotations

import os

import numpy as np

from ..containers.compressed import named_compression
from ..containers.containers import open_descriptor
from ..containers.indices import parse_pairs, read_text, write_text
from .tfrecord_tables import PLACE

_CHUNK = 1 << 16


def read_index(path: str) -> tuple[np.ndarray, np.ndarray]:
    """(offsets, sizes), int64. Records may be omitted or reordered; an empty index names none."""
    text = read_text(path)
    numbers = parse_pairs(text, path) if text.strip() else np.empty((0, 2), np.int64)
    return numbers[:, 0].copy(), numbers[:, 1].copy()


def scan(path: str) -> tuple[np.ndarray, np.ndarray]:
    """(offsets, sizes) of all records of a TFRecord file; an empty file has none. RuntimeError names record and offset of bad framing."""
    from . import tfrecord_kernels as kernels

    with open_descriptor(path) as (descriptor, size):
        pieces, at, total = [np.empty((0, PLACE.words), np.int64)], 0, 0
        while at < size:
            places = np.empty((_CHUNK + 1, PLACE.words), np.int64)
            count = kernels.scan_frames(descriptor, at, size, places.ctypes.data, _CHUNK)
            at = int(places[_CHUNK, PLACE.word.offset])
            if count < 0:
                hint = named_compression(path) if at == 0 else ""
                raise RuntimeError(
                    f"{path} is not a TFRecord file, or damaged, at offset {at} (after {total}+ records): {explain(-count)}{hint}"
                )
            total += count
            pieces.append(places[:count].copy())
    whole = np.concatenate(pieces)
    return whole[:, PLACE.word.offset].copy(), whole[:, PLACE.word.length].copy()


def explain(code: int) -> str:
    """The message for a status of the kernels."""
    from ..containers import record_kernels
    from . import tfrecord_kernels as kernels

    known = {
        kernels.LENGTH_SUM: "the checksum of the record's length is wrong",
        kernels.DATA_SUM: "the checksum of the record's data is wrong",
        kernels.WRONG_LENGTH: "the record is longer than the rest of the file",
        kernels.TOO_SHORT: f"record is too short: a record has at least {kernels.FRAME} bytes",
        kernels.BROKEN: "Error while parsing TFRecord file: the record is not a tensorflow.Example",
        record_kernels.SHORT_READ: "the file ends before the record does",
    }
    return known.get(code) or os.strerror(code)


def make_index(data_path: str, index_path: str) -> tuple[np.ndarray, np.ndarray]:
    """Scan a file and store the index."""
    offsets, sizes = scan(data_path)
    pairs = np.column_stack([offsets, sizes]).tolist()
    write_text(index_path, "".join(f"{offset} {size}\n" for offset, size in pairs))
    return offsets, sizes
