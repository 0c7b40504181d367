"""Windows of samples: crop, slice, crop_mirror_normalize. Elements are copied or normalised, never resampled. Random windows are drawn in
`sampling.random_streams`.

    crop.py                   crop: a window of the input; and the window arguments that crop_mirror_normalize shares
    crop_kernels.py, crop_tables.py
                              Compiled step of ``crop``
    crop_mirror_normalize.py  crop_mirror_normalize: window, mirror, normalisation, type and layout in one pass
    crop_mirror_normalize_kernels.py
                              Compiled step of ``crop_mirror_normalize``
    crop_rules.py             Positions of crop windows, computed for a whole batch
    slice.py, slice_kernels.py
                              slice: a window of N-d samples, by named arguments or by the inputs anchor and shape
    slice_rules.py            Positions of slices for a whole batch

May import what all families of operators may, and `operators.resize` (crop_mirror_normalize reads resized pixels while they are computed).
"""
