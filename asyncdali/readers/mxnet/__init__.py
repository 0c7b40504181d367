"""readers.mxnet: RecordIO files.

    mxnet.py  readers.mxnet: images and labels from RecordIO files
    mxnet_kernels.py, mxnet_tables.py
              Parses RecordIO: joins the parts of a record, and finds its label and its image

May import `readers.containers`, `readers.base`, `readers.remote`, and what `readers` may.
"""
