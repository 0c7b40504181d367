"""Code that runs without the interpreter.

A *step* is a compiled function that does one operator's work on one sample::

    step(context: int64, sample: int64, thread: int64) -> int64      # 0 = done, else a status code

``context`` is the address of an int64 table that the operator's plan filled in (addresses of arrays, scalars). ``thread`` is the address of
the calling thread's record (``job_tables.THREAD``). The *driver* (``driver.py``) visits samples in any number of threads. Each thread takes
the next sample from a shared atomic counter and runs all steps of a segment on it, while the sample is in the cache. Python is entered once
per thread and job, whatever the number of samples and steps.

``import asyncdali`` imports nothing of this package: ``build()`` imports Numba, on the building thread. Kernel modules are called
``*_kernels.py`` and are beside their operator.

May import private modules only: it stands below every other room.
"""
