"""Operators that change or read shapes: reshape, reinterpret, expand_dims, squeeze, transpose, pad, cat, stack, shapes.

May import what all families of operators may: the contract of operators, `codecs`, `sampling`, `compiled`, `device.launch`, types.
"""
