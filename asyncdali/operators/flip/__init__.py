"""Reversal of axes: flip for pixels, coord_flip and bb_flip for points and boxes.

    flip_kernels.py                     Compiled step of ``flip``

May import what all families of operators may.
"""
