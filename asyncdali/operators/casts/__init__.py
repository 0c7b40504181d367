"""Conversions to another element type: cast, cast_like.

    cast.py          cast: convert to another element type
    cast_kernels.py  Compiled step of ``cast``
    cast_like.py, cast_like_kernels.py
                     cast_like: convert to the element type of another input

May import what all families of operators may: the contract of operators, `codecs`, `sampling`, `compiled`, `device.launch`, types.
"""
