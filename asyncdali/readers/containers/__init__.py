"""Container files: where their records are, mapping them, reading records of a batch. The formats have folders of their own.

    compressed.py                        Names the compression of a file that a reader expected to be uncompressed
    containers.py                        Container files and the places of their records, shared by the tfrecord, LMDB, RecordIO and tar
                                         readers
    indices.py                           Text files beside the data: lists of names, and indices of containers
    mapping.py                           Maps files into memory, so that records are read in the system's page cache
    record_kernels.py, record_tables.py  Reads records of container files without the interpreter
    protobuf_kernels.py                  Parses protocol buffer messages in place

May import `readers.base` and `readers.remote`, and what `readers` may.
"""
