"""Tools beside the library: ``asyncdali bench`` and ``asyncdali doctor``. Nothing here runs unless it is asked for, but for the cheap
checks of :mod:`.doctor` in ``Pipeline.build()``.

May import public names, statistics of `compiled`, the plan, and `workers`.
"""
