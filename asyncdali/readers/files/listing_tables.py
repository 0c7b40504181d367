"""Tables of the listing of directories."""

from __future__ import annotations

from ...compiled.tables import Field, Table

SUFFIX = Table("SUFFIX", Field("address", "address", "of the suffix's bytes"), Field("length", "int64", "bytes of the suffix"))

LISTING = Table(
    "LISTING",
    Field("folders", "uint8", "NUL-terminated paths of the directories, one after another"),
    Field("folder_starts", "int64[directories]", "where these paths begin"),
    Field("first", "int64", "index of the first directory to list; the kernel replaces it by the directory to continue with"),
    Field("end", "int64", "behind the last directory"),
    Field("paths", "uint8[paths_bytes]", "room for the files' paths"),
    Field("paths_bytes", "int64", "bytes of that room"),
    Field("starts", "int64[entries]", "where the files' paths begin; written by the kernel"),
    Field("numbers", "int32[entries]", "directory of each file; written by the kernel"),
    Field("entries", "int64", "files that there is room for"),
    Field("suffixes", "SUFFIX[suffix_count]", "names of files end in one of these"),
    Field("suffix_count", "int64", "number of suffixes; 0: all files are listed"),
    Field("fold", "int64", "1: ASCII letters of either case are equal, and suffixes are in lower case"),
    Field("scratch", "uint8[scratch_bytes]", "room for the names of one directory"),
    Field("scratch_bytes", "int64", "bytes of that room"),
    Field("order", "int64[entries]", "room for sorting"),
    Field("other", "int64[entries]", "room for sorting"),
    Field("written", "int64", "files listed; written by the kernel"),
    Field("used", "int64", "bytes of `paths` in use; written by the kernel"),
    Field("names_bytes", "int64", "bytes of the names of one directory; the kernel's own"),
)
