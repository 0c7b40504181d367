"""A JPEG writer with unusual choices: constructs that the standard allows and common encoders never write.

Huffman codes of random lengths, tables in any slot and any number of segments, precisions of 16 bits for tables that need only 8, fill
bytes before markers, segments of applications, components of any name, single scans per component.
"""

from __future__ import annotations

import struct

import numpy as np

from .images import segment

_ZIGZAG = sorted(range(64), key=lambda k: (k // 8 + k % 8, k // 8 if (k // 8 + k % 8) % 2 else k % 8))
_SAMPLINGS = [[(1, 1)] * 3, [(2, 1), (1, 1), (1, 1)], [(2, 2), (1, 1), (1, 1)], [(1, 2), (1, 1), (1, 1)]]


def _dct() -> np.ndarray:
    k, n = np.mgrid[0:8, 0:8]
    matrix = np.cos((2 * n + 1) * k * np.pi / 16) / 2
    matrix[0] /= np.sqrt(2)
    return matrix


_DCT = _dct()


def _planes(image: np.ndarray) -> list[np.ndarray]:
    if image.ndim == 2:
        return [image.astype(float)]
    r, g, b = (image[:, :, k].astype(float) for k in range(3))
    luma = 0.299 * r + 0.587 * g + 0.114 * b
    return [luma, (b - luma) / 1.772 + 128, (r - luma) / 1.402 + 128]


def _blocks(plane: np.ndarray, h: int, v: int, most_h: int, most_v: int, table: np.ndarray) -> np.ndarray:
    """Quantised coefficients int[rows, columns, 64] in zigzag order, of whole MCUs."""
    height, width = plane.shape
    rows, columns = -(-height // (8 * most_v)) * 8 * most_v, -(-width // (8 * most_h)) * 8 * most_h
    full = np.pad(plane, ((0, rows - height), (0, columns - width)), "edge")
    full = full[:: most_v // v, :: most_h // h] - 128
    cut = full.reshape(full.shape[0] // 8, 8, -1, 8).swapaxes(1, 2)
    coefficients = (_DCT @ cut @ _DCT.T).reshape(cut.shape[0], cut.shape[1], 64)[:, :, _ZIGZAG]
    return np.clip(np.rint(coefficients / table), -1023, 1023).astype(int)


class Codes:
    """A complete Huffman code of random lengths for `symbols`, of at most 16 bits, the code of ones alone left out."""

    def __init__(self, symbols: list[int], rng: np.random.Generator):
        leaves = [0]
        while len(leaves) < len(symbols) + 1:
            able = [k for k, depth in enumerate(leaves) if depth < 16]
            # Sometimes extend the deepest leaf, which makes long codes.
            at = able[-1] if rng.random() < 0.2 else able[int(rng.integers(len(able)))]
            leaves[at : at + 1] = [leaves[at] + 1] * 2
            if rng.random() < 0.1:
                leaves.sort()
        leaves = sorted(leaves)[: len(symbols)]
        self.counts = bytes(leaves.count(length) for length in range(1, 17))
        self.symbols = bytes(int(v) for v in rng.permutation(symbols))
        self.codes: dict[int, str] = {}
        code, before = 0, leaves[0]
        for symbol, length in zip(self.symbols, leaves, strict=True):
            code <<= length - before
            self.codes[symbol] = f"{code:0{length}b}"
            code, before = code + 1, length


def _number(value: int) -> str:
    size = abs(value).bit_length()
    return f"{value if value >= 0 else value + (1 << size) - 1:0{size}b}" if size else ""


def _symbols(block: np.ndarray, last: int) -> list[tuple[int, str]]:
    """The block's symbols with the bits behind each: the DC difference, then the AC coefficients."""
    values = block[: np.flatnonzero(block)[-1] + 1 if block.any() else 1].tolist()
    found = [(abs(values[0] - last).bit_length(), _number(values[0] - last))]
    run = 0
    for value in values[1:]:
        if value == 0:
            run += 1
            continue
        found += [(0xF0, "")] * (run // 16)
        found.append((run % 16 << 4 | abs(value).bit_length(), _number(value)))
        run = 0
    return found if block[63] else [*found, (0, "")]


def _data(bits: str) -> bytes:
    bits += "1" * (-len(bits) % 8)
    return int("1" + bits, 2).to_bytes(len(bits) // 8 + 1, "big")[1:].replace(b"\xff", b"\xff\0")


def _noise(rng: np.random.Generator) -> bytes:
    """Random content between segments: fill bytes, applications' segments, comments."""
    kind = rng.random()
    if kind < 0.6:
        return b""
    if kind < 0.8:
        return b"\xff" * int(rng.integers(1, 4))
    return segment(int(rng.choice([0xFE, *range(0xE2, 0xEE), 0xEF])), rng.bytes(int(rng.integers(0, 300))))


def write(image: np.ndarray, rng: np.random.Generator) -> bytes:
    """The picture (uint8[h, w] or [h, w, 3]) as a sequential JPEG with everything drawn from `rng`."""
    planes = _planes(image)
    count, (height, width) = len(planes), image.shape[:2]
    sampling = _SAMPLINGS[rng.integers(4)] if count == 3 else [(int(rng.integers(1, 5)), int(rng.integers(1, 5)))]
    most_h, most_v = (max(h for h, _ in sampling), max(v for _, v in sampling)) if count == 3 else (1, 1)
    slots = [int(v) for v in rng.permutation(4)[:count]]
    tables = [rng.integers(1, int(rng.choice([2, 20, 120, 256])), 64) for _ in range(count)]
    shares = sampling if count == 3 else [(1, 1)]
    blocks = [_blocks(plane, *share, most_h, most_v, table) for plane, share, table in zip(planes, shares, tables, strict=True)]
    names = [int(v) for v in rng.choice([0, 1, 2, 3, 7, 89, 200], count, replace=False)]
    restart = int(rng.choice([0, 0, 0, 1, 2, 5]))
    apart = count == 3 and rng.random() < 0.04
    scans = [[k] for k in range(count)] if apart else [list(range(count))]

    out = bytearray(b"\xff\xd8")
    if rng.random() < 0.5:
        out += segment(0xE0, b"JFIF\0\1\1\0\0\1\0\1\0\0")
    for slot, table in zip(slots, tables, strict=True):
        wide = rng.random() < 0.1
        body = b"".join(struct.pack(">H" if wide else ">B", int(v)) for v in table)
        out += _noise(rng) + segment(0xDB, bytes([wide << 4 | slot]) + body)
    frame = struct.pack(">BHHB", 8, height, width, count)
    frame += b"".join(bytes([names[k], sampling[k][0] << 4 | sampling[k][1], slots[k]]) for k in range(count))
    out += _noise(rng) + segment(int(rng.choice([0xC0, 0xC1])), frame)
    if restart:
        out += _noise(rng) + segment(0xDD, struct.pack(">H", restart))

    for scan in scans:
        pieces, used = _entropy(scan, blocks, sampling, planes, (most_h, most_v), restart)
        codes = {key: Codes(_some_more(symbols, key[0], rng), rng) for key, symbols in used.items()}
        slot_of = dict(zip([*used], [int(v) for v in _slots(used, rng)], strict=True))
        payloads = [bytes([(key[0] == "ac") << 4 | slot_of[key]]) + made.counts + made.symbols for key, made in codes.items()]
        for payload in [b"".join(payloads)] if rng.random() < 0.5 else payloads:
            out += _noise(rng) + segment(0xC4, payload)
        body = b"".join(bytes([names[k], slot_of["dc", k] << 4 | slot_of["ac", k]]) for k in scan)
        out += _noise(rng) + segment(0xDA, bytes([len(scan)]) + body + b"\x00\x3f\x00")
        for number, piece in enumerate(pieces):
            if number:
                out += bytes([0xFF, 0xD0 + (number - 1) % 8])
            out += _data("".join(codes[key].codes[symbol] + bits for key, symbol, bits in piece))
    return bytes(out + b"\xff\xd9")


def _slots(used: dict, rng: np.random.Generator) -> list[int]:
    places = {"dc": rng.permutation(4).tolist(), "ac": rng.permutation(4).tolist()}
    return [places[kind].pop() for kind, _ in used]


def _some_more(symbols: set[int], kind: str, rng: np.random.Generator) -> list[int]:
    """The symbols that occur, and some others that do not."""
    possible = range(12) if kind == "dc" else [run << 4 | size for run in range(16) for size in range(1, 11)] + [0, 0xF0]
    return sorted(symbols | {int(v) for v in rng.choice(list(possible), int(rng.integers(1, len(possible))), replace=False)})


def _entropy(scan, blocks, sampling, planes, most, restart):  # type: ignore[no-untyped-def]
    """The symbols of each segment between restart markers, as (table, symbol, bits), and the symbols of each table."""
    order = []  # blocks in the scan's order, one list per MCU
    if len(scan) == 1:
        k = scan[0]
        h, v = sampling[k] if len(planes) == 3 else (1, 1)
        rows = -(-planes[k].shape[0] * v // (8 * most[1]))
        columns = -(-planes[k].shape[1] * h // (8 * most[0]))
        order = [[(k, y, x)] for y in range(rows) for x in range(columns)]
    else:
        rows, columns = blocks[0].shape[0] // sampling[0][1], blocks[0].shape[1] // sampling[0][0]
        within = [(k, j, i) for k in scan for j in range(sampling[k][1]) for i in range(sampling[k][0])]
        order = [[(k, y * sampling[k][1] + j, x * sampling[k][0] + i) for k, j, i in within] for y in range(rows) for x in range(columns)]
    pieces: list[list[tuple[tuple[str, int], int, str]]] = []
    used: dict[tuple[str, int], set[int]] = {(kind, k): set() for k in scan for kind in ("dc", "ac")}
    last: dict[int, int] = {}
    for number, mcu in enumerate(order):
        if number == 0 or (restart and number % restart == 0):
            pieces.append([])
            last = dict.fromkeys(scan, 0)
        for k, y, x in mcu:
            block = blocks[k][y, x]
            for at, (symbol, bits) in enumerate(_symbols(block, last[k])):
                key = ("ac" if at else "dc", k)
                used[key].add(symbol)
                pieces[-1].append((key, symbol, bits))
            last[k] = int(block[0])
    return pieces, used
