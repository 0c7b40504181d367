"""Operators that change sizes: resize, and all operators that resample along the axes of an image.

    image_resampling.py                  Preparation of resampling
    random_resized_crop.py               A random window of an image, resized
    resize.py                            resize: images, sequences and volumes to another size, with a region of interest, flips and
                                         antialiasing
    resize_crop_mirror.py                The result of resize, crop and flip in sequence, computed with one resampling
    resize_kernels.py, resize_tables.py  Compiled steps of ``resize``: separable resampling of images, sequences and volumes
    resize_rows.py                       ``resize`` of pictures that are decoded row by row
    resize_rules.py                      Output extents and sampled region of ``resize``: arithmetic for a whole batch, without pixels
    resize_tap_kernels.py                Weights of the filters of resampling: the pixels (taps) that each output pixel reads, and their
                                         weights
    tensor_resize.py                     Resize up to three axes of a tensor, whatever the axes mean

May import what all families of operators may, and `operators.crop` (rules of windows).
"""
