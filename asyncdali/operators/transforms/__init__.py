"""Affine transforms as matrices (`transforms.*`), and their application to points (coord_transform).

    coord_transform_kernels.py          Compiled step of coord_transform
    transforms_kernels.py               Products of affine transforms, in float32, rounded after each operation

May import what all families of operators may.
"""
