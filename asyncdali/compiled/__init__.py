"""Code that runs without the interpreter.

A *step* is a compiled function that does one operator's work on one sample::

    step(context: int64, sample: int64, thread: int64) -> int64      # 0 = done, else a status code

``context`` is the address of an int64 table that the operator's plan filled in (addresses of arrays, scalars). ``thread`` is the address of
the calling thread's record (``job_tables.THREAD``). The *driver* (``driver.py``) visits samples in any number of threads. Each thread takes
the next sample from a shared atomic counter and runs all steps of a segment on it, while the sample is in the cache. Python is entered once
per thread and job, whatever the number of samples and steps.

``import asyncdali`` imports nothing of this package. Numba is imported when a kernel must be compiled, which ``build()`` does. Kernel
modules are called ``*_kernels.py`` and are beside their operator.

From a function to machine code::

    @step function --> kernel_keys.py --> shipped.py, kernel_store.py --> machine_code.py --> an address, for the driver
                       a digest           is it on disk?                  linked
                                              | no
                                              v
                                          compiler.py: Numba, once; then it is on disk

    addresses.py        Addresses of arrays, for the tables that compiled steps read
    branch_tables.py    Tables of the steps in ``branches``
    branches.py         Steps that run for some samples of a batch only
    byte_vectors.py     Loops over bytes: fixed shuffles of pixels, and tables of 256 entries
    c_library.py        The C library's ``logf`` and ``cosf`` for vectors, equal to the last bit
    cache.py            The disk cache of functions that Numba compiled
    compiler.py         Numba's compiler without the passes that kernels do not need
    convert_kernels.py  Conversions of single values between element types, as DALI does them
    copies.py           Copies of samples from addresses to addresses, for outputs that must not be views of the user's memory
    crew.py             Worker threads that wait for jobs, and work on them, without the interpreter
    element_tables.py   Table of the operators that compute every element by itself (``operators/elements.py``)
    feed_tables.py      Tables of feeds: rows of a sample on their way from the step that computes them to the step that reads them
    frame_steps.py      A step that runs for every frame of a sequence
    frame_tables.py     Table of ``frames_step``
    gate.py             A gate at which one thread waits without the interpreter
    intrinsics.py       Functions that Numba lacks for kernels on raw addresses
    job_tables.py       Tables of the driver: a job, the counts of a job, and a thread's record
    kernel_keys.py      A digest of everything that a compiled kernel depends on
    kernel_store.py     The folder of compiled kernels: its place, its owner, its size, and how to empty it
    kinds.py            Types and functions for kernels, declared without Numba
    lowering.py         Numba's passes without the work that kernels do not need
    machine_code.py     Kernels as object files: what they need from outside, and how they are linked into this process
    numba_vectors.py    Numba's type of vectors, and its operators
    places.py           Computes the places of the samples of a batch in its memory
    progress.py         The line on stderr that says why a program waits: kernels are being compiled, once on this machine
    relocation.py       Copies of tables whose addresses change
    sample_tables.py    Table of the operators that compute every sample by a function of arrays (``operators/samples.py``)
    shape_tables.py     Shapes of samples as records of compiled code
    shipped.py          Kernels that came with the package
    step.py             Decorators that turn Python functions into cached machine code that runs without the interpreter
    tables.py           Declarations of the tables that kernels read
    target.py           The processor for which kernels are compiled: a level of x86-64, and not the exact processor
    vectors.py          Vectors with a fixed number of lanes as values in kernels, for loops that the compiler does not vectorise
    volumes.py          Counts elements of batches with the interpreter lock held
    waiting.py          When a kernel that is not in the cache is compiled, and by which process
    watch.py            Waits without the interpreter until commands succeed that ask a GPU for events, or until a descriptor is readable

May import private modules only: it stands below every other room.
"""
