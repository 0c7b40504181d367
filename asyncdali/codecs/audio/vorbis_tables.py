"""Tables of the Vorbis decoder: what the headers of a file say, prepared for decoding. ``vorbis_setup`` makes them."""

from __future__ import annotations

from ...compiled.tables import Field, Table

MOST_CHANNELS = 8
LEAST_BLOCK, MOST_BLOCK = 64, 8192
MOST_POINTS = 65
"""Points of a floor's curve."""
SUBCLASSES = 8
PASSES = 8
"""Most passes over a residue."""

BOOK = Table(
    "BOOK",
    Field("dimensions", "int64", "numbers of a vector"),
    Field("mask", "int64", "of the bits that are an index into `table`"),
    Field("table", "int32[mask + 1]", "entry << 6 | bits of its code; 0: the code is longer"),
    Field("longer", "int64", "number of longer codes"),
    Field("codes", "int64[longer]", "these codes with zeros behind them, of 32 bits, the first bit highest; ascending"),
    Field("found", "int32[longer]", "entry << 6 | bits, of these"),
    Field("vectors", "float32[entries, dimensions]", "a vector for each entry; 0: the book has none"),
)
"""A codebook: numbers of entries in a code without common prefixes."""

CLASS = Table(
    "CLASS",
    Field("points", "int64", "points of a partition of this class"),
    Field("bits", "int64", "bits that choose the book of a point"),
    Field("chooser", "BOOK", "which gives these bits for all points; 0: there are none"),
    Field("books", "BOOK", "for the value of a point; 0: the value is 0", tuple("01234567")),
)
"""A class of partitions of a floor."""

FLOOR = Table(
    "FLOOR",
    Field("points", "int64", "of the curve, up to MOST_POINTS"),
    Field("range", "int64", "values of a point"),
    Field("range_bits", "int64", "bits of the first two values"),
    Field("multiplier", "int64", "of the values"),
    Field("partitions", "int64", "groups of points"),
    Field("classes", "CLASS[partitions]", "of the groups, as addresses"),
    Field("x", "int64[points]", "where the points are, in the order in which they are stored"),
    Field("low", "int64[points]", "the nearest earlier point on the left; the first two have none"),
    Field("high", "int64[points]", "the nearest earlier point on the right"),
    Field("order", "int64[points]", "the points from left to right"),
)
"""A floor of type 1: a curve of straight lines, in decibels."""

RESIDUE = Table(
    "RESIDUE",
    Field("interleaved", "int64", "1: the channels alternate (type 2)"),
    Field("strided", "int64", "1: the numbers of a vector are apart (type 0)"),
    Field("begin", "int64", "first number that is stored"),
    Field("end", "int64", "behind the last one"),
    Field("part", "int64", "numbers of a partition"),
    Field("book", "BOOK", "which gives the classes of several partitions"),
    Field("digits", "int64", "so many partitions"),
    Field("classes", "uint8[entries, digits]", "the classes of these partitions for each entry; 255: the entry means nothing"),
    Field("passes", "int64", "passes over the partitions"),
    Field("books", "BOOK[classes, PASSES]", "as addresses; 0: nothing is stored in this pass"),
)

PAIR = Table(
    "PAIR",
    Field("magnitude", "int64", "the channel that stores magnitudes"),
    Field("angle", "int64", "the channel that stores angles"),
)
"""Two channels that are stored together."""

MAPPING = Table(
    "MAPPING",
    Field("couplings", "int64", "number of pairs"),
    Field("pairs", "PAIR[couplings]", "channels that are stored together"),
    Field("floors", "FLOOR[channels]", "as addresses"),
    Field("groups", "int64", "groups of channels with a residue of their own"),
    Field("group_of", "int64[channels]", "the group of each channel"),
    Field("residues", "RESIDUE[groups]", "as addresses"),
)

MODE = Table(
    "MODE",
    Field("long", "int64", "1: blocks of the larger size"),
    Field("mapping", "MAPPING", "of these blocks"),
)

TRANSFORM = Table(
    "TRANSFORM",
    Field("points", "int64", "complex points: a quarter of the block"),
    Field("twist", "float32[2, points]", "real and imaginary parts of the factors before and behind the Fourier transform"),
    Field("turns", "float32[...]", "factors of its passes: for each pass real and imaginary parts of three powers"),
    Field("window", "float32[2 * points]", "the rising half of the window"),
)

VORBIS = Table(
    "VORBIS",
    Field("channels", "int64", "number of channels"),
    Field("rate", "int64", "samples per second"),
    Field("modes", "int64", "number of modes"),
    Field("mode_bits", "int64", "bits that choose a mode"),
    Field("mode", "MODE[modes]", "one record after another"),
    Field("block", "int64", "samples of a block", ("short", "long")),
    Field("transform", "TRANSFORM", "of a block", ("short", "long")),
)

WORK = Table(
    "WORK",
    Field("setup", "VORBIS", "of the stream"),
    Field("half", "int64", "half of the size of the block before; 0 before the first one"),
    Field("room", "int64", "half of the size of a long block: elements per channel of the arrays"),
    Field("spectra", "float32[channels, room]", "numbers of each channel, then the first half of its block"),
    Field("tails", "float32[channels, room]", "the second half of the block before"),
    Field("curves", "int64[channels, MOST_POINTS]", "points of the floors; complements of values that no line goes through"),
    Field("silent", "int64[channels]", "1: the floor is 0; bit 1: so are the numbers"),
    Field("classes", "uint8[channels, room]", "of the partitions"),
    Field("vectors", "float32[channels, room]", "numbers of alternating channels"),
    Field("turned", "float32[4, room]", "for the transform, and the second half of a block"),
    Field("samples", "float32[room]", "samples of a channel"),
    Field("packet", "uint8[]", "the bytes of a page and of a packet that began before it"),
)
"""The memory of the decoder of one file; part of the thread's scratch."""
