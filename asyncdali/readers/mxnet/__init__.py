"""readers.mxnet: RecordIO files.

May import `readers.containers`, `readers.base`, `readers.remote`, and what `readers` may.
"""
