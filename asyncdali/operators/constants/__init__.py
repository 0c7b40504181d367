"""Samples that depend on arguments only: constant, full, zeros, ones, and rows of a constant table.

May import what all families of operators may: the contract of operators, `codecs`, `sampling`, `compiled`, `device.launch`, types.
"""
