"""The life of worker processes: start, replacement, time limits, the end, and recovery after a dead worker.

May import the standard library, numpy and this package; never asyncdali.
"""
