"""rec2idx RECORD INDEX: an index of a RecordIO file (MXNet), a line "key<TAB>offset" per record; keys count from 0."""

from __future__ import annotations

import argparse
import os
import struct
import sys
from collections.abc import Sequence

_MAGIC = 0xCED7230A
_LENGTH_BITS = 29
_WHOLE, _FIRST = 0, 1
"""Flags of a part: the whole record, or the first part of several. Middle parts have 2, last parts 3."""


def create_index(record: str, index: str) -> int:
    """Write the index and return the number of records. A record in several parts counts once, at its first part.

    Raises FileNotFoundError if the file does not exist, ValueError if the file is not valid RecordIO.
    """
    count = 0
    with open(record, "rb") as data, open(index, "w") as out:
        size = os.fstat(data.fileno()).st_size
        offset = 0
        while offset < size:
            data.seek(offset)
            head = data.read(8)
            if len(head) < 8 or struct.unpack("<I", head[:4])[0] != _MAGIC:
                raise ValueError(
                    f"{record}: there is no record of RecordIO at byte {offset}; the file is damaged, or is not a RecordIO file"
                )
            (word,) = struct.unpack("<I", head[4:])
            length = word & ((1 << _LENGTH_BITS) - 1)
            if word >> _LENGTH_BITS in (_WHOLE, _FIRST):
                out.write(f"{count}\t{offset}\n")
                count += 1
                if count % 1000 == 0:
                    print(f"{count} records")
            offset += 8 + -(-length // 4) * 4
    return count


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="rec2idx", description=__doc__)
    parser.add_argument("record", help="path of the RecordIO file")
    parser.add_argument("index", help="path of the index to write")
    given = parser.parse_args(arguments)
    print(f"{create_index(given.record, given.index)} records")
    return 0


if __name__ == "__main__":
    sys.exit(main())
