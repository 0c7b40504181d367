"""readers.tfrecord: the framing with its checksums, index files, and features of tensorflow.Example.

    tfrecord_crc_kernels.py               CRC-32C (Castagnoli): the processor's instruction where it has one, a table elsewhere
    features.py                           Declarations of the features that ``readers.tfrecord`` takes from each record
    tfrecord.py                           readers.tfrecord: features of tensorflow.Example records
    tfrecord_index.py                     Index files of TFRecord files: one line ``offset size`` per record, frame included
    tfrecord_kernels.py, tfrecord_tables.py
                                          Parses TFRecord framing and ``tensorflow.Example`` messages, without the interpreter

May import `readers.containers`, `readers.base`, `readers.remote`, and what `readers` may.
"""
