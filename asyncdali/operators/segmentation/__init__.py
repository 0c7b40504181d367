"""Operators of `fn.segmentation`: pixels, objects and polygons of masks.

    object_bbox_kernels.py, object_bbox_tables.py
                                        Random selection of objects of labelled masks: connected regions, their boxes, and the draw
    random_mask_pixel.py, random_mask_pixel_kernels.py
                                        segmentation.random_mask_pixel: a pixel of a mask, picked at random
    random_object_bbox.py               segmentation.random_object_bbox: the box of an object of a labelled mask, picked at random
    select_masks.py, select_masks_kernels.py, select_masks_tables.py
                                        segmentation.select_masks: the polygons of some masks

May import what all families of operators may, and `operators.detection` (rows of boxes).
"""
