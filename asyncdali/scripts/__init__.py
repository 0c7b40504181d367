"""The index scripts: tfrecord2idx, rec2idx, wds2idx.

May import `readers` only through the command line, and the standard library.
"""
