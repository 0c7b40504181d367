"""Conversions to another element type: cast, cast_like.

    cast_kernels.py                     Compiled step of ``cast``

May import what all families of operators may: the contract of operators, `codecs`, `sampling`, `compiled`, `device.launch`, types.
"""
