"""Affine transforms as matrices (`transforms.*`), and their application to points (coord_transform).

May import what all families of operators may.
"""
