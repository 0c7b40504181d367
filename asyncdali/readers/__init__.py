"""Readers: operators that read the files of a data set, and their shared modules.

    base.py, order.py         a reader's arguments, position, shards and shuffling
    listing.py, listed.py, file_table.py, contents.py    data sets of files
    containers.py, mapping.py, indices.py           data sets of records in large files
    batch_files.py            files that Python reads (fits, nemo_asr, sequence, video)
    remote.py, requests.py, prefetch.py                URLs
    entries.py, digest.py     which files an index may name; whether they are those of a checkpoint
    file.py, tfrecord.py, ... one module per reader; `*_kernels.py` has its compiled part, `*_tables.py` the tables of that part

May import: operators' base, random streams and file formats, batches, compiled code, types and errors.
"""
