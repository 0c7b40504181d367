"""The headers of a Vorbis stream: parsed once for all files with the same headers (Vorbis I specification, sections 3, 4, 7 to 9).

libvorbis spends 400 of 1,600 us per file of four seconds on them. Encoders write few different headers: they depend on rate, channels and
quality. Floors of type 0, which no encoder has written since 2001, and impossible headers are left to libvorbis.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from ...compiled.addresses import address_of
from ...compiled.tables import Table
from .vorbis_tables import (
    BOOK,
    CLASS,
    FLOOR,
    LEAST_BLOCK,
    MAPPING,
    MODE,
    MOST_BLOCK,
    MOST_CHANNELS,
    MOST_POINTS,
    PASSES,
    RESIDUE,
    SUBCLASSES,
    TRANSFORM,
    VORBIS,
)
from .wav_headers import MOST_RATE

IDENTIFICATION = slice(28, 58)
"""The bytes of a file with the first header."""
_KEPT = 64
"""Headers whose tables are kept."""
_MOST_BYTES = 8 << 20
"""Bytes of the tables of a stream. Impossible headers of a few bytes could ask for more than a gigabyte."""
_SYNC = 0x564342
_INDEX_BITS = 10
"""Codes up to so many bits are found in one look-up."""
_MOST_NUMBERS = 1 << 20
"""Numbers in the vectors of a book, and entries of all books. libvorbis has 26,000 in a book."""
_RANGES = (256, 128, 86, 64)
_NO_CLASS = 255


class Setup:
    """The tables of a stream: `address` is that of a VORBIS, `bytes` is the size of all of them. Raises _Unknown if they are too large."""

    def __init__(self) -> None:
        self._keep: list[Any] = []
        self.bytes = 0
        self.address = 0

    def array(self, values: Any, kind: Any = np.int64) -> int:
        """Keep an array. Returns its address."""
        made = np.ascontiguousarray(values, kind)
        self.bytes += made.nbytes
        _require(self.bytes <= _MOST_BYTES)
        self._keep.append(made)
        return address_of(made)

    def record(self, layout: Table, /, **values: object) -> int:
        """Keep a record. Returns its address."""
        return self.array(layout.entries(**values))


@lru_cache(_KEPT)
def setup_of(identification: bytes, packet: bytes) -> Setup | None:
    """The tables for the first and the third header of a stream; None for unusual or wrong headers."""
    try:
        return _Headers(identification, packet).setup
    except _Unknown:
        return None


class _Unknown(Exception):
    """The decoder does not know such headers."""


def _require(condition: object) -> None:
    if not condition:
        raise _Unknown


class _Bits:
    """Reads numbers from a packet, the lowest bit first."""

    def __init__(self, packet: bytes):
        padded = np.frombuffer(packet + bytes(8), np.uint8)
        self._array = np.ascontiguousarray(np.lib.stride_tricks.sliding_window_view(padded, 8)).view("<u8")[:, 0]
        self._words: list[int] = self._array.tolist()  # the 64 bits from each byte on
        self._at, self._end = 0, 8 * len(packet)

    def read(self, count: int) -> int:
        """An unsigned number of 0 to 32 bits."""
        at = self._at
        self._at += count
        _require(self._at <= self._end)
        return self._words[at >> 3] >> (at & 7) & ((1 << count) - 1)

    def array(self, number: int, count: int) -> np.ndarray:
        """int64[number] of unsigned numbers of `count` bits."""
        _require(self._at + number * count <= self._end)
        places = self._at + count * np.arange(number)
        self._at += number * count
        shifted = self._array[places >> 3] >> (places & 7).astype(np.uint64)
        numbers: np.ndarray = (shifted & np.uint64((1 << count) - 1)).astype(np.int64)
        return numbers


class _Book(NamedTuple):
    address: int
    dimensions: int
    entries: int
    has_vectors: bool


class _Floor(NamedTuple):
    address: int


class _Residue(NamedTuple):
    address: int
    interleaved: bool
    begin: int
    part: int


class _Headers:
    """A parser of the headers. Raises _Unknown."""

    def __init__(self, identification: bytes, packet: bytes):
        self.setup = Setup()
        first = _Bits(identification)
        _require(identification[:7] == b"\1vorbis" and packet[:7] == b"\5vorbis")
        first.read(56)
        _require(first.read(32) == 0)  # version
        self._channels, rate = first.read(8), first.read(32)
        first.array(3, 32)  # bit rates
        sizes = [1 << first.read(4), 1 << first.read(4)]
        _require(1 <= self._channels <= MOST_CHANNELS and 1 <= rate <= MOST_RATE)
        _require(LEAST_BLOCK <= sizes[0] <= sizes[1] <= MOST_BLOCK and first.read(1))
        self._bits = _Bits(packet)
        self._bits.read(56)
        self._sizes, self._entries = sizes, 0
        read = self._bits.read
        self._books = [self._book() for _ in range(read(8) + 1)]
        _require(not any(read(16) for _ in range(read(6) + 1)))  # what was planned for transforms
        self._floors = [self._floor() for _ in range(read(6) + 1)]
        self._residues = [self._residue() for _ in range(read(6) + 1)]
        mappings = [self._mapping() for _ in range(read(6) + 1)]
        modes = [self._mode(mappings) for _ in range(read(6) + 1)]
        _require(read(1))
        transforms = [self._transform(size) for size in sizes]
        self.setup.address = self.setup.record(
            VORBIS, channels=self._channels, rate=rate, modes=len(modes), mode_bits=(len(modes) - 1).bit_length(),
            mode=self.setup.array(np.concatenate(modes)), block_short=sizes[0], block_long=sizes[1],
            transform_short=transforms[0], transform_long=transforms[1],
        )  # fmt: skip

    # --- books

    def _book(self) -> _Book:
        read = self._bits.read
        _require(read(24) == _SYNC)
        dimensions, entries = read(16), read(24)
        self._entries += entries
        _require(entries and dimensions and self._entries <= _MOST_NUMBERS and entries * dimensions <= _MOST_NUMBERS)
        lengths = self._lengths(entries)
        vectors = self._vectors(dimensions, entries)
        bits, table, longer = _look_ups(lengths)
        keep = self.setup.array
        address = self.setup.record(
            BOOK, dimensions=dimensions, mask=(1 << bits) - 1, table=keep(table, np.int32), longer=len(longer.codes),
            codes=keep(longer.codes), found=keep(longer.found, np.int32), vectors=0 if vectors is None else keep(vectors, np.float32),
        )  # fmt: skip
        return _Book(address, dimensions, entries, vectors is not None)

    def _lengths(self, entries: int) -> np.ndarray:
        """Bits of the code of each entry, int64[entries]; 0: the entry is not used."""
        read = self._bits.read
        if read(1):  # ascending
            lengths, length, begin = np.zeros(entries, np.int64), read(5) + 1, 0
            while begin < entries:
                number = read((entries - begin).bit_length())
                _require(begin + number <= entries and length <= 32)
                lengths[begin : begin + number] = length
                begin, length = begin + number, length + 1
            return lengths
        if read(1):
            return np.array([read(5) + 1 if read(1) else 0 for _ in range(entries)], np.int64)
        return self._bits.array(entries, 5) + 1

    def _vectors(self, dimensions: int, entries: int) -> np.ndarray | None:
        """float32[entries, dimensions]; None if the book has no vectors."""
        read = self._bits.read
        kind = read(4)
        if kind == 0:
            return None
        _require(kind <= 2)
        least, step = _unpacked(read(32)), _unpacked(read(32))
        bits, summed = read(4) + 1, read(1)
        number = _grid(entries, dimensions) if kind == 1 else entries * dimensions
        values = self._bits.array(number, bits).astype(np.float32) * step + least
        if kind == 1:
            places = np.arange(entries)[:, None] // number ** np.arange(dimensions, dtype=np.int64)
            vectors = values[places % number]
        else:
            vectors = values.reshape(entries, dimensions)
        return np.add.accumulate(vectors, axis=1, dtype=np.float32) if summed else vectors

    def _reference(self, number: int, with_vectors: bool = False) -> _Book:
        """A book by its number."""
        _require(number < len(self._books) and (self._books[number].has_vectors or not with_vectors))
        return self._books[number]

    # --- floors

    def _floor(self) -> _Floor:
        read, keep = self._bits.read, self.setup.array
        _require(read(16) == 1)
        class_of = [read(4) for _ in range(read(5))]
        classes = [self._class() for _ in range(max(class_of, default=-1) + 1)]
        multiplier, bits = read(2) + 1, read(4)
        x = [0, 1 << bits]
        for number in class_of:
            x += [read(bits) for _ in range(classes[number].points)]
        _require(len(x) <= MOST_POINTS and len(set(x)) == len(x))
        neighbours = [_neighbours(x, k) for k in range(len(x))]
        return _Floor(self.setup.record(
            FLOOR, points=len(x), range=_RANGES[multiplier - 1], range_bits=(_RANGES[multiplier - 1] - 1).bit_length(),
            multiplier=multiplier, partitions=len(class_of),
            classes=keep([classes[number].address for number in class_of]), x=keep(x), low=keep([low for low, _ in neighbours]),
            high=keep([high for _, high in neighbours]), order=keep(np.argsort(x)),
        ))  # fmt: skip

    def _class(self) -> _Class:
        read = self._bits.read
        points, bits = read(3) + 1, read(2)
        chooser = self._reference(read(8)).address if bits else 0
        books = [self._reference(number - 1).address if (number := read(8)) else 0 for _ in range(1 << bits)]
        books += [0] * (SUBCLASSES - len(books))
        named = {f"books_{k}": book for k, book in enumerate(books)}
        return _Class(self.setup.record(CLASS, points=points, bits=bits, chooser=chooser, **named), points)

    # --- residues, mappings, modes

    def _residue(self) -> _Residue:
        read, keep = self._bits.read, self.setup.array
        kind, begin, end, part, classes, book = read(16), read(24), read(24), read(24) + 1, read(6) + 1, self._reference(read(8))
        _require(kind <= 2 and begin <= end)
        passes = [self._passes() for _ in range(classes)]
        books = np.zeros((classes, PASSES), np.int64)
        for number, used in enumerate(passes):
            for k in range(PASSES):
                if used >> k & 1:
                    chosen = self._reference(read(8), with_vectors=True)
                    _require(part % chosen.dimensions == 0)
                    books[number, k] = chosen.address
        digits = book.dimensions
        _require(digits * (classes - 1).bit_length() <= 24 and classes**digits <= book.entries)
        meanings = np.arange(book.entries)[:, None] // classes ** np.arange(digits - 1, -1, -1)
        named = np.where(meanings[:, :1] < classes, meanings % classes, _NO_CLASS)
        address = self.setup.record(
            RESIDUE, interleaved=int(kind == 2), strided=int(kind == 0), begin=begin, end=end, part=part, book=book.address,
            digits=digits, classes=keep(named, np.uint8), passes=max(passes).bit_length(), books=keep(books),
        )  # fmt: skip
        return _Residue(address, kind == 2, begin, part)

    def _passes(self) -> int:
        """A bit for each pass in which a class has a book."""
        low = self._bits.read(3)
        return low | self._bits.read(5) << 3 if self._bits.read(1) else low

    def _mapping(self) -> int:
        read, keep = self._bits.read, self.setup.array
        _require(read(16) == 0)
        groups = read(4) + 1 if read(1) else 1
        width = (self._channels - 1).bit_length()
        pairs = [(read(width), read(width)) for _ in range(read(8) + 1)] if read(1) else []
        _require(all(a != b and max(a, b) < self._channels for a, b in pairs) and read(2) == 0)
        group_of = [read(4) for _ in range(self._channels)] if groups > 1 else [0] * self._channels
        _require(max(group_of) < groups)
        floors, residues = [], []
        for group in range(groups):
            read(8)
            floor, number = read(8), read(8)
            _require(floor < len(self._floors) and number < len(self._residues))
            residue, members = self._residues[number], group_of.count(group)
            # Partitions of alternating channels must begin with the first one.
            _require(not residue.interleaved or members == 0 or (residue.begin % members == 0 and residue.part % members == 0))
            floors.append(self._floors[floor].address)
            residues.append(residue.address)
        return self.setup.record(
            MAPPING, couplings=len(pairs), pairs=keep(pairs), floors=keep([floors[group] for group in group_of]), groups=groups,
            group_of=keep(group_of), residues=keep(residues),
        )  # fmt: skip

    def _mode(self, mappings: Sequence[int]) -> np.ndarray:
        """A MODE."""
        read = self._bits.read
        longer, window, transform, mapping = read(1), read(16), read(16), read(8)
        _require(window == 0 and transform == 0 and mapping < len(mappings))
        return np.array(MODE.entries(long=longer, mapping=mappings[mapping]), np.int64)

    def _transform(self, size: int) -> int:
        """A TRANSFORM for blocks of `size` samples."""
        keep, points = self.setup.array, size // 4
        twist = np.exp(-1j * np.pi * (8 * np.arange(points) + 1) / (4 * size))
        turns: list[np.ndarray] = []
        length = points
        while length >= 4:
            power = np.exp(-2j * np.pi * np.arange(length // 4) / length)
            turns += [part for k in (1, 2, 3) for part in ((power**k).real, (power**k).imag)]
            length //= 4
        rising = np.sin(np.pi / 2 * np.sin((np.arange(size // 2) + 0.5) / size * np.pi) ** 2)
        return self.setup.record(
            TRANSFORM, points=points, twist=keep(np.stack([twist.real, twist.imag]), np.float32),
            turns=keep(np.concatenate(turns), np.float32), window=keep(rising, np.float32),
        )  # fmt: skip


class _Class(NamedTuple):
    address: int
    points: int


class _Longer(NamedTuple):
    """Codes of more than _INDEX_BITS bits, as they are in a BOOK."""

    codes: np.ndarray
    found: np.ndarray


def _look_ups(lengths: np.ndarray) -> tuple[int, np.ndarray, _Longer]:
    """The tables of a book: bits of an index, int32[1 << bits], and the codes that do not fit into it."""
    from .vorbis_kernels import number_codes

    codes = np.zeros(len(lengths), np.int64)
    status = number_codes(address_of(lengths), len(lengths), address_of(codes))
    used = np.flatnonzero(lengths)
    if len(used) == 1 and lengths[used[0]] == 1:  # Both bits stand for the only entry.
        return 1, np.full(2, used[0] << 6 | 1), _Longer(np.zeros(0), np.zeros(0))
    _require(status == 0)
    bits = min(int(lengths.max()), _INDEX_BITS)
    entries = used << 6 | lengths[used]
    table = np.zeros(1 << bits, np.int64)
    for length in range(1, bits + 1):
        own = lengths[used] == length
        begins = _reversed(codes[used[own]])  # the bits behind the code are higher ones
        table[begins[:, None] + (np.arange(1 << (bits - length)) << length)] = entries[own][:, None]
    rest = used[lengths[used] > bits]
    rest = rest[np.argsort(codes[rest])]
    return bits, table, _Longer(codes[rest], rest << 6 | lengths[rest])


def _reversed(numbers: np.ndarray) -> np.ndarray:
    """Numbers of 32 bits with the first bit last."""
    for shift, mask in ((1, 0x55555555), (2, 0x33333333), (4, 0x0F0F0F0F), (8, 0x00FF00FF), (16, 0x0000FFFF)):
        numbers = (numbers >> shift & mask) | (numbers & mask) << shift
    return numbers


def _unpacked(bits: int) -> np.float32:
    """The number that 32 bits stand for: 21 bits, a power of two, a sign."""
    power = min(max((bits >> 21 & 0x3FF) - 788, -63), 63)
    return np.float32((-1.0 if bits >> 31 else 1.0) * (bits & 0x1FFFFF) * 2.0**power)


def _grid(entries: int, dimensions: int) -> int:
    """The largest number whose power `dimensions` is not above `entries`."""
    number = int(entries ** (1 / dimensions)) + 1
    while number**dimensions > entries:
        number -= 1
    return number


def _neighbours(x: list[int], place: int) -> tuple[int, int]:
    """The nearest points on the left and on the right among those before a place."""
    if place < 2:
        return 0, 0
    before = range(place)
    return max((k for k in before if x[k] < x[place]), key=x.__getitem__), min((k for k in before if x[k] > x[place]), key=x.__getitem__)
