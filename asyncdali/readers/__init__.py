"""Readers: operators that read a data set's files, and what they share.

    base.py, digest.py    what all readers share: arguments, position; names of samples for checkpoints
    files/                one file per sample: listing, names and labels, whole files (readers.file, fits, nemo_asr, io.file.read)
    containers/           records in large files: mapping, reading, index files
    tfrecord/ lmdb/ mxnet/ webdataset/ coco/ npy/ video/    one folder per storage format, with its readers
    remote/               URLs: requests, retries, batches fetched ahead

The path of a batch::

    position --> sampling.order --> indices --> files/ or containers/ (URLs: remote/) --> jobs that read --> batches
                                                                                          prepare            plan

`*_kernels.py` is a reader's compiled part, `*_tables.py` that part's tables. The order of samples is `sampling.order`.

May import: the contract of operators, `codecs`, `sampling`, batches, compiled code, types and errors.
"""
