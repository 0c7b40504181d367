"""readers.mxnet: RecordIO files.

    recordio_kernels.py, recordio_tables.py
                                        Parses RecordIO: joins the parts of a record, and finds its label and its image

May import `readers.containers`, `readers.base`, `readers.remote`, and what `readers` may.
"""
