"""What parent and workers both read and write: the shared file, its records, and what is asked of Linux.

May import the standard library, numpy and this package; never asyncdali.
"""
