"""readers.tfrecord: the framing with its checksums, index files, and features of tensorflow.Example.

May import `readers.containers`, `readers.base`, `readers.remote`, and what `readers` may.
"""
