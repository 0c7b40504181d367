"""Pixels that come from elsewhere: rotations, affine and perspective warps, maps, displacements.

May import what all families of operators may.
"""
