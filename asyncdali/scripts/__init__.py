"""The index scripts: tfrecord2idx, rec2idx, wds2idx.

May import `readers` through the command line only, and the standard library.
"""
