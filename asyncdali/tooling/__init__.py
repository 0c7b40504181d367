"""Command line tools: ``asyncdali bench`` and ``asyncdali doctor``. Only the quick checks of :mod:`.doctor` run unasked, in
``Pipeline.build()``.

May import public names, statistics of `compiled`, the plan, and `workers`.
"""
