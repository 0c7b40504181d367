"""Geometric warps: rotations, affine and perspective transforms, maps, displacements.

    sphere_water.py, sphere_water_kernels.py
                                        The shared part of sphere and water: every pixel is copied from a displaced position
    quads.py, quads.cuh                 Kernels: four pixels of three bytes at a time
    remap.py                            experimental.remap: two maps give the source position of every pixel
    rotate.py, rotate_rules.py          Rotate images, sequences and volumes about their centre
    rotate_kernels.py, rotate_kernels.cu
                                        Kernels of rotate and warp_affine: an inverse affine warp, nearest or linear
    sphere.py, sphere_kernels.py        Images as if they were seen in a sphere
    warp_affine.py, warp_affine_kernels.py
                                        Apply an affine transform to images, sequences and volumes
    warp_perspective.py, warp_perspective_kernels.py, warp_perspective_launches.py, warp_perspective_tables.py
                                        experimental.warp_perspective: apply a perspective transform to images
    water.py, water_kernels.py          Images as if they were seen under water

May import what all families of operators may.
"""
