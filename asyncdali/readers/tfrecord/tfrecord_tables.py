"""Tables of ``readers.tfrecord``."""

from __future__ import annotations

from ...compiled.tables import Field, Table

ABSENT, TEXTS, FLOATS, INTEGERS = range(4)
"""Kinds of a feature's list: the numbers of the lists in a Feature message."""

FEATURE = Table(
    "FEATURE",
    Field("kind", "int64", "ABSENT, TEXTS, FLOATS or INTEGERS"),
    Field("lists", "uint8[length]", "the fields of the feature from its first list of this kind on", ("address", "length")),
    Field("values", "int64", "values in the list"),
    Field("text", "uint8[length]", "the first text in the record", ("address", "length")),
)
"""The description of one feature of a record."""

PARSE_EXAMPLE = Table(
    "PARSE_EXAMPLE",
    Field("addresses", "addresses", "of the records"),
    Field("sizes", "int64[samples]", "bytes of each record"),
    Field("features", "int64", "features that are wanted"),
    Field("names", "addresses", "of the features' names"),
    Field("name_lengths", "int64[features]", "bytes of each name"),
    Field("kinds", "int64[features]", "their declared kinds"),
    Field("found", "FEATURE[samples, features]", "zeros; written by the step"),
)
WRITE_NUMBERS = Table(
    "WRITE_NUMBERS",
    Field("found", "FEATURE[samples, features]", "the features of all records"),
    Field("features", "int64", "features of each record"),
    Field("count", "int64", "features of each record that are written"),
    Field("which", "int64[count]", "numbers of these features"),
    Field("kinds", "int64[count]", "their declared kinds; an empty list of another kind is passed over"),
    Field("targets", "addresses[count]", "of an int64[samples] each: where the numbers are written"),
)

PLACE = Table(
    "PLACE",
    Field("offset", "int64", "where a record begins in the file, in bytes"),
    Field("length", "int64", "bytes of the record with its frame"),
)
"""The place of one record."""
