"""Geometric warps: rotations, affine and perspective transforms, maps, displacements.

May import what all families of operators may.
"""
