"""Affine transforms as matrices (`transforms.*`), and their application to points (coord_transform).

    coord_transform.py          coord_transform: apply a matrix and an offset to points
    coord_transform_kernels.py  Compiled step of coord_transform
    transforms.py               transforms.*: affine transforms as matrices, [ndim, ndim + 1] float32 per sample (per frame, with a layout
                                F**); known after planning
    transforms_kernels.py       Products of affine transforms, in float32, rounded after each operation

May import what all families of operators may.
"""
