"""Reversal of axes: flip for pixels, coord_flip and bb_flip for points and boxes.

May import what all families of operators may.
"""
