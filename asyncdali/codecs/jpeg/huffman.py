"""Huffman tables for fast decoding: one look-up of the next bits yields up to two complete coefficients.

The standard's suggested tables (annex K), which most encoders write, are built once per process. Other tables are built once per picture.
"""

from __future__ import annotations

import numpy as np

from ...compiled.intrinsics import clear_bytes, copy_bytes, load_i32, load_i64, load_u8, shift_right, store_i64, view_i32, view_i64
from ...compiled.step import inlined

AC_BITS = 11
"""Index bits of AC tables. Photographs need 0.65 look-ups per symbol; with 12 bits 0.61, but then the tables exceed the L1 cache."""
DC_BITS = 9
MOST_BITS = 18
"""Most bits that an AC entry consumes. Three entries can then be decoded without refilling the reservoir."""

# A table: the file's definition (16 counts, symbols), the data that decodes longer codes, and the entries.
_LIMITS, _DELTAS, ENTRIES = 272, 272 + 17 * 8, 576
DC_TABLE_BYTES, AC_TABLE_BYTES = ENTRIES + 4 * (1 << DC_BITS), ENTRIES + 8 * (1 << AC_BITS)

# An AC entry, 64 bits:
#   0-7    bits consumed: SLOW, up to AC_BITS, or up to MOST_BITS if the value is not in the index
#   8-15   number of coefficients to advance; plus END_OF_BLOCK if the block ends
#   16-23  zeros before the first value; 24-31: coefficients before the second
#   32-47  first value, or its size in bits if the value is not in the index; 48-63: second value, or 0, which later writes overwrite
SLOW = 63
"""Bits of an entry that needs the slow path: its code is longer than the index or invalid, or its value exceeds MOST_BITS."""
END_OF_BLOCK = 128
LARGEST_AC, LARGEST_DC = 10, 11
"""Most bits of a value in a picture of 8 bits."""

# A DC entry, 32 bits:
#   0-7    length of the code; 0: longer than the index, or invalid
#   8-15   symbol: number of bits of the difference

_LUMA_AC = (
    "0002010303020403050504040000017d"
    "01020300041105122131410613516107227114328191a1082342b1c11552d1f02433627282090a161718191a25262728292a"
    "3435363738393a434445464748494a535455565758595a636465666768696a737475767778797a838485868788898a92939495969798999aa2a3a4a5a6a7a8a9aab2"
    "b3b4b5b6b7b8b9bac2c3c4c5c6c7c8c9cad2d3d4d5d6d7d8d9dae1e2e3e4e5e6e7e8e9eaf1f2f3f4f5f6f7f8f9fa"
)  # fmt: skip
_CHROMA_AC = (
    "00020102040403040705040400010277"
    "000102031104052131061241510761711322328108144291a1b1c109233352f0156272d10a162434e125f11718191a262728292a"
    "35363738393a434445464748494a535455565758595a636465666768696a737475767778797a82838485868788898a92939495969798999aa2a3a4a5a6a7a8a9aab2"
    "b3b4b5b6b7b8b9bac2c3c4c5c6c7c8c9cad2d3d4d5d6d7d8d9dae2e3e4e5e6e7e8e9eaf2f3f4f5f6f7f8f9fa"
)  # fmt: skip
STANDARD_CODES = (
    bytes.fromhex("00010501010101010100000000000000" "000102030405060708090a0b"),
    bytes.fromhex("00030101010101010101010000000000" "000102030405060708090a0b"),
    bytes.fromhex(_LUMA_AC),
    bytes.fromhex(_CHROMA_AC),
)  # fmt: skip
"""T.81, tables K.3 to K.6: counts of codes by length, then symbols. DC of luma and chroma, then AC of luma and chroma."""


@inlined
def extended(bits, size):
    """The value that `size` raw bits represent (T.81, F.2.2.1, EXTEND). `size` is at least 1."""
    return bits if bits >> (size - 1) != 0 else bits - (1 << size) + 1


@inlined
def _payload_bytes(payload):
    """Total bytes of counts and symbols."""
    total = np.int64(16)
    for k in range(16):
        total += np.int64(load_u8(payload + k))
    return total


@inlined
def same_codes(table, payload):
    """Whether a table equals the counts and symbols at `payload`. The counts give the number of symbols."""
    for k in range(_payload_bytes(table)):  # noqa: SIM110 (Numba has no generators)
        if load_u8(table + k) != load_u8(payload + k):
            return False
    return True


@inlined
def _prepare(table, payload):
    """Copy the payload and fill in the data that decodes codes of any length. False if there are more codes than the bits allow."""
    copy_bytes(table, payload, _payload_bytes(payload))
    code = first = np.int64(0)
    for length in range(1, 17):
        count = np.int64(load_u8(table + length - 1))
        store_i64(table + _DELTAS + 8 * length, first - code)
        code += count
        first += count
        store_i64(table + _LIMITS + 8 * length, code << (16 - length))
        if count != 0 and code >= 1 << length:  # A code of all ones is not allowed.
            return False
        code <<= 1
    return True


@inlined
def slow_symbol(table, window):
    """Decode the symbol at the start of the 16 bits `window`: symbol << 8 | length of the code, or -1 for an invalid code."""
    for length in range(1, 17):
        if window < load_i64(table + _LIMITS + 8 * length):
            at = (window >> (16 - length)) + load_i64(table + _DELTAS + 8 * length)
            return np.int64(load_u8(table + 16 + at)) << 8 | length
    return np.int64(-1)


@inlined
def _fill(at, count, entry):
    """Write `count` equal entries. Through an array, because LLVM makes scatter instructions of stores by address."""
    entries = view_i64(at, count)
    for k in range(count):
        entries[k] = entry


@inlined
def _entry(length, advance, first, second, value):
    """Make an AC entry of one symbol."""
    return length | advance << 8 | first << 16 | second << 24 | (value & 0xFFFF) << 32


@inlined
def _fill_symbol(at, code_bits, symbol):
    """Write the entries of one AC code in sequence, from `at` on."""
    run, size = symbol >> 4, symbol & 15
    length = code_bits + size
    rest = AC_BITS - length
    if size == 0:
        if run == 15:
            _fill(at, 1 << rest, _entry(length, 16, 0, 1, 0))
        else:
            _fill(at, 1 << rest, _entry(length, END_OF_BLOCK, 0, 1, 0))
    elif size <= LARGEST_AC and length <= MOST_BITS:
        if rest < 0:
            _fill(at, 1 << (AC_BITS - code_bits), _entry(length, run + 1, run, run + 1, size))
        else:
            for bits in range(1 << size):
                _fill(at + (8 << rest) * bits, 1 << rest, _entry(length, run + 1, run, run + 1, extended(bits, size)))


@inlined
def _pairs(single, entries):
    """Combine entries of single symbols into entries of two symbols where both fit the index."""
    found, made = view_i64(single, 1 << AC_BITS), view_i64(entries, 1 << AC_BITS)
    for k in range(1 << AC_BITS):
        entry = found[k]
        length, advance = entry & 255, (entry >> 8) & 255
        if length < AC_BITS and advance < END_OF_BLOCK:
            other = found[(k << length) & ((1 << AC_BITS) - 1)]
            if length + (other & 255) <= AC_BITS:
                second = advance + ((other >> 16) & 255)
                entry = (entry & 0xFFFF00FF0000) | (other & 0xFFFF00000000) << 16 | second << 24
                entry |= (length + (other & 255)) | (advance + ((other >> 8) & 255)) << 8
        made[k] = entry


@inlined
def build_ac(table, payload, single):
    """Build an AC table from the counts and symbols at `payload`.

    `single` is scratch for one more set of entries. False for invalid codes.
    """
    if not _prepare(table, payload):
        return False
    _fill(single, 1 << AC_BITS, SLOW)
    at, symbol = single, table + 16
    for length in range(1, AC_BITS + 1):
        for _ in range(np.int64(load_u8(table + length - 1))):
            _fill_symbol(at, length, np.int64(load_u8(symbol)))
            at += 8 << (AC_BITS - length)
            symbol += 1
    _pairs(single, table + ENTRIES)
    return True


@inlined
def build_dc(table, payload):
    """Build a DC table. False for invalid codes or symbols."""
    if not _prepare(table, payload):
        return False
    for k in range(16, _payload_bytes(table)):
        if load_u8(table + k) > 15:
            return False
    _fill_symbols(table, LARGEST_DC)
    return True


@inlined
def build_symbols(table, payload):
    """Build an AC table of symbols only, laid out like a DC table. False for invalid codes."""
    if not _prepare(table, payload):
        return False
    _fill_symbols(table, 255)
    return True


@inlined
def _fill_symbols(table, largest):
    """Write the entries of symbols up to the largest allowed symbol."""
    clear_bytes(table + ENTRIES, 4 << DC_BITS)
    entries = view_i32(table + ENTRIES, 1 << DC_BITS)
    at, symbol = np.int64(0), table + 16
    for length in range(1, DC_BITS + 1):
        for _ in range(np.int64(load_u8(table + length - 1))):
            meaning = np.int64(load_u8(symbol))
            entry = length | meaning << 8 if meaning <= largest else 0
            for k in range(at, at + (1 << (DC_BITS - length))):
                entries[k] = np.int32(entry)
            at += 1 << (DC_BITS - length)
            symbol += 1


@inlined
def symbol_of(table, buffer):
    """Decode the symbol at the start of the bits with a table of symbols: symbol << 8 | length of its code, or -1 for an invalid code."""
    entry = np.int64(load_i32(table + ENTRIES + 4 * shift_right(buffer, 64 - DC_BITS)))
    return entry if entry != 0 else slow_symbol(table, shift_right(buffer, 48))
