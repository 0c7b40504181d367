"""Memory that parent and workers both read and write: the shared file, its records, and the system calls for it.

May import the standard library, numpy and this package; never asyncdali.
"""
