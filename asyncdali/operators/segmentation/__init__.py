"""Operators of `fn.segmentation`: pixels, objects and polygons of masks.

    random_mask_pixel.py, random_mask_pixel_kernels.py
                                        segmentation.random_mask_pixel: a pixel of a mask, picked at random
    random_object_bbox.py, random_object_bbox_kernels.py
                                        segmentation.random_object_bbox: the box of an object of a labelled mask, picked at random
    select_masks.py, select_masks_kernels.py
                                        segmentation.select_masks: the polygons of some masks

May import what all families of operators may, and `operators.detection` (rows of boxes).
"""
