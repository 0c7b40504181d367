"""Rules for the headers of WAV files. They follow libsndfile, which DALI uses, so that every decoder accepts the same files."""

from __future__ import annotations

MOST_CHANNELS, MOST_RATE = 1024, (1 << 31) - 1
UNFINISHED, LEAST_UNFINISHED = 8, 44
"""A writer that was killed leaves this size in the header of the file, and no samples in the data chunk. The samples then reach to the end
of the file, if the file has more bytes than the usual header."""
EXTENSIBLE = 40
"""Bytes of an extensible format."""
GUID = bytes.fromhex("000000001000800000aa00389b71")
"""The bytes behind the kind in an extensible format: Microsoft's KSDATAFORMAT_SUBTYPE."""
RESYNC = 5
"""A chunk whose name is not printable is no chunk. If it begins at a multiple of four bytes, the file is broken. Otherwise, the size of the
chunk before was wrong, and the search goes on so many bytes later."""
