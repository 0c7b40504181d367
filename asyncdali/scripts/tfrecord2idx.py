"""tfrecord2idx FILE INDEX: an index of a TFRecord file, a line "offset size" per record (framing included), in bytes."""

from __future__ import annotations

import os
import struct
import sys
from collections.abc import Sequence

_LENGTH_AND_CHECK = 12
_CHECK = 4


def create_index(record: str, index: str) -> int:
    """Write the index and return the number of records. A truncated record is written with its remaining size.

    Raises FileNotFoundError if the file does not exist. A file of less than 8 bytes is not a TFRecord file: the index is empty.
    """
    count = 0
    with open(record, "rb") as data, open(index, "w") as out:
        size = os.fstat(data.fileno()).st_size
        if 0 < size < 8:
            print("Not a valid TFRecord file")
            return 0
        offset = 0
        while offset < size:
            data.seek(offset)
            head = data.read(8)
            if len(head) < 8:
                break
            (length,) = struct.unpack("<Q", head)
            end = min(offset + _LENGTH_AND_CHECK + length + _CHECK, size)
            out.write(f"{offset} {end - offset}\n")
            offset = end
            count += 1
    return count


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command. Arguments after the first two are ignored."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    if len(given) < 2:
        print("usage: tfrecord2idx <tfrecord file> <index file>")
        return 0
    create_index(given[0], given[1])
    return 0


if __name__ == "__main__":
    sys.exit(main())
