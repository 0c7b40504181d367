"""Memory that parent and workers both read and write: the shared file, its records, and the system calls for it.

    calls.py      System calls that a kernel or a container may refuse
    control.py    The first pages of a pool's shared file, which contain the shared state of parent and workers
    libraries.py  The shared libraries that are loaded in this process
    records.py    The binary records between the parent and its workers
    schema.py     The expected layout of a batch, so that workers can write samples to their final place
    system.py     Linux features of shared memory: mappings, huge pages, locks that the kernel releases when their holder dies, and eventfds

May import the standard library, numpy and this package; never asyncdali.
"""
