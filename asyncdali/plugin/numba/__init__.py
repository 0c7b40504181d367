"""`asyncdali.plugin.numba.fn.experimental.numba_function`: the operator stands in ``asyncdali.fn.experimental``."""
