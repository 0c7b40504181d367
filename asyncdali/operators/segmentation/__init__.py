"""Operators of `fn.segmentation`: pixels, objects and polygons of masks.

May import what all families of operators may, and `operators.detection` (rows of boxes).
"""
