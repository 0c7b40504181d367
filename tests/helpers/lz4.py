"""A plain writer of LZ4 blocks (github.com/lz4/lz4, doc/lz4_Block_format.md): greedy matches of four bytes and more."""

from __future__ import annotations


def _more(length: int) -> bytes:
    """The length bytes that follow a token of 15."""
    return b"\xff" * ((length - 15) // 255) + bytes([(length - 15) % 255]) if length >= 15 else b""


def _sequence(literals: bytes, distance: int = 0, match: int = 4) -> bytes:
    token = bytes([min(len(literals), 15) << 4 | min(match - 4, 15) * (distance > 0)])
    end = distance.to_bytes(2, "little") + _more(match - 4) if distance else b""
    return token + _more(len(literals)) + literals + end


def compress(data: bytes) -> bytes:
    """One block. As the format requires, the last five bytes are literals and no match begins in the last twelve."""
    out, begin, i, seen = b"", 0, 0, {}
    while i < len(data) - 12:
        key, found = data[i : i + 4], seen.get(data[i : i + 4], -1)
        seen[key] = i
        if found < 0 or i - found > 65535:
            i += 1
            continue
        length = 4
        while i + length < len(data) - 5 and data[found + length] == data[i + length]:
            length += 1
        out += _sequence(data[begin:i], i - found, length)
        i += length
        begin = i
    return out + _sequence(data[begin:])
