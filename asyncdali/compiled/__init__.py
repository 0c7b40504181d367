"""Code that runs without the interpreter.

A *step* is a compiled function that does one operator's work on one sample::

    step(context: int64, sample: int64, thread: int64) -> int64      # 0 = done, else a status code

``context`` is the address of an int64 table that the operator's plan filled (addresses of arrays, scalars), ``thread`` the
address of the calling thread's record (``job_tables.THREAD``).  The *driver* (``driver.py``) walks samples in any number of threads, each
taking the next sample from a shared atomic counter, and runs all steps of a segment on a sample while it is hot in cache.
Python enters once per thread and job, whatever the number of samples and steps.

Nothing here is imported by ``import asyncdali``: Numba is brought in by ``build()``, on the building thread.  Kernel modules are
called ``*_kernels.py`` and sit beside the operator they belong to.
"""
