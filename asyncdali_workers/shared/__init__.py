"""Memory that parent and workers both read and write: the shared file, its records, and the system calls for it.

    control.py    The first pages of a pool's shared file, which contain the shared state of parent and workers
    libraries.py  The shared libraries that are loaded in this process
    schema.py     The expected layout of a batch, so that workers can write samples to their final place

May import the standard library, numpy and this package; never asyncdali.
"""
