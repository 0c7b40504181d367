"""LMDB databases by their file format, and the readers of what Caffe and Caffe2 keep in them.

May import `readers.containers`, `readers.base`, `readers.remote`, and what `readers` may.
"""
