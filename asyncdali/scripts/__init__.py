"""The index scripts: tfrecord2idx, rec2idx, wds2idx.

    rec2idx.py       rec2idx RECORD INDEX: an index of a RecordIO file (MXNet), a line "key<TAB>offset" per record; keys count from 0
    tfrecord2idx.py  tfrecord2idx FILE INDEX: an index of a TFRecord file, a line "offset size" per record (framing included), in bytes
    wds2idx.py       wds2idx ARCHIVE [INDEX]: an index of a webdataset archive: "v1.2 N", then a line "ext offset size name ..." per sample

May import `readers` only through the command line, and the standard library.
"""
