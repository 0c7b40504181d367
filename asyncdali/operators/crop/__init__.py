"""Windows of samples: crop, slice, crop_mirror_normalize. Elements are copied or normalised, never resampled.

    crop_kernels.py, crop_tables.py   Compiled step of ``crop``
    crop_mirror_normalize_kernels.py  Compiled step of ``crop_mirror_normalize``
    crop_rules.py                     Positions of crop windows, computed for a whole batch
    slice_rules.py                    Positions of slices for a whole batch

May import what all families of operators may, and `operators.resize` (crop_mirror_normalize reads resized pixels while they are computed).
"""
