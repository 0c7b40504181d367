"""Reversal of axes: flip for pixels, coord_flip and bb_flip for points and boxes.

    bb_flip.py       bb_flip: mirror boxes as flip mirrors pictures
    coord_flip.py    coord_flip: mirror points as flip mirrors pictures
    flip.py          flip: reverse the width, height or depth
    flip_kernels.py  Compiled step of ``flip``

May import what all families of operators may.
"""
