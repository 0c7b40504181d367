"""Windows of samples: crop, slice, crop_mirror_normalize. Elements are copied or normalised, never resampled.

May import what all families of operators may, and `operators.resize` (crop_mirror_normalize reads resized pixels while they are computed).
"""
