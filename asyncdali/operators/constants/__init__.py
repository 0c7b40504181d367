"""Samples that depend on arguments only: constant, full, zeros, ones, and rows of a constant table.

    broadcasts.py    The shared part of full and full_like
    constant.py      constant, and the hidden operator behind array constants in a graph
    equal_values.py  The shared part of zeros, ones and their "like" forms: samples that are filled with one number
    full.py          full: an input, broadcast to a shape
    full_like.py     An input, broadcast to the shape of another input
    ones.py          ones: samples of ones
    ones_like.py     Ones in the shape of an input
    table_rows.py    Rows of a constant table: the hidden operator behind magnitudes of ``auto_aug``
    zeros.py         zeros: samples of zeros
    zeros_like.py    Zeros in the shape of an input

May import what all families of operators may: the contract of operators, `codecs`, `sampling`, `compiled`, `device.launch`, types.
"""
