"""The life of worker processes: start, replacement, time limits, the end, and what a dead worker leaves.

May import the standard library, numpy and this package; never asyncdali.
"""
