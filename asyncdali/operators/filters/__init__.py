"""Filters of images and volumes: every output pixel is computed from a neighbourhood.

    filter.py, filter_kernels.py          Correlation of images or volumes with filters of any shape
    gaussian_blur.py                      Separable gaussian windows
    laplacian.py, laplacian_kernels.py    The sum of second derivatives along all data axes
    planes_kernels.py, planes_tables.py   Records of samples, addressed as planes by filters
    planes.py                             Memory layout of samples for a filter: planes of data axes, with or without channels
    dilate_erode_median_kernels.py        Compiled steps for rectangles of pixels: maximum, minimum and median
    dilate_erode_median.py                experimental.dilate, experimental.erode, experimental.median_blur
    gaussian_blur_kernels.py, gaussian_blur_tables.py
                                          The compiled step of separable filters: one window per data axis; also sums of several such
                                          filters
    gaussian_blur_launches.py             Separable filters on a GPU (``gaussian_blur_kernels.cu``; small windows:
                                          ``gaussian_blur_small_kernels.cu``)
    gaussian_blur_survey_kernels.py       Facts about a whole batch that the launches of a separable filter need, found with the interpreter
                                          lock held
    gaussian_blur_window_kernels.py       Gaussian windows of a whole batch
    windows.py                            One-dimensional windows of separable filters

May import what all families of operators may: the contract of operators, `codecs`, `sampling`, `compiled`, `device.launch`, types.
"""
