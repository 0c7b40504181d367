"""Arithmetic on nodes, compiled to one loop per tree of operations; indexing.

May import what all families of operators may: the contract of operators, `codecs`, `sampling`, `compiled`, `device.launch`, types.
"""
