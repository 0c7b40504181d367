"""Reductions over axes, and operators based on them.

    normalize.py, normalize_kernels.py, normalize_tables.py
                                          Data with a given mean and standard deviation, over any axes, per sample or per batch
    place_tables.py                       Locations of numbers of samples: three words in the tables of reductions and of ``normalize``
    reductions_kernels.py, reductions_tables.py
                                          Compiled steps of reductions over any axes of samples
    reductions_launches.py                Reductions on a GPU
    reductions_vectors.py                 Vectorised sums and extremes, with the results of ``reductions_kernels``
    reductions.py                         reductions.*: sums, means, extremes and deviations over axes

May import what all families of operators may: the contract of operators, `codecs`, `sampling`, `compiled`, `device.launch`, types.
"""
