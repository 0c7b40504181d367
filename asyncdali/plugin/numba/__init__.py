"""Names of DALI's Numba plugin: the operator itself stands in ``asyncdali.fn.experimental`` and ``asyncdali.ops.experimental``."""
