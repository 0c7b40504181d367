"""Affine transforms as matrices (`transforms.*`), and points through them (coord_transform).

May import what all families of operators may.
"""
