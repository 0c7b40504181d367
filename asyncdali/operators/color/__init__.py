"""Colours of pictures.

    brightness.py                       A factor and a shift
    brightness_contrast.py              Change brightness and contrast in one step
    clahe.py, clahe_kernels.py, clahe_launches.py, clahe_tables.py
                                        Histogram equalisation tile by tile, with limited contrast (CLAHE)
    color.py, color_tables.py           The shared part of brightness, contrast and brightness_contrast
    color_matrix.py, color_matrix_kernels.py
                                        The shared part of hue, saturation, hsv and color_twist: one 3 x 3 matrix and one offset per
                                        sample
    color_space.py, color_space_kernels.py
                                        color_space_conversion: between RGB, BGR, grey and YCbCr
    color_twist.py                      Hue, saturation, brightness and contrast in one step
    contrast.py                         Scale the distance of every element from a centre
    debayer.py, debayer_kernels.py
                                        Colour images from the mosaic of a sensor
    equalize.py, equalize_kernels.py    Histogram equalisation of images
    hsv.py                              Hue, saturation and value in one step
    hue.py                              Rotate colours in the chroma plane
    jpeg_distortion.py, jpeg_distortion_kernels.py, jpeg_distortion_launches.py, jpeg_distortion_tables.py
                                        jpeg_compression_distortion: images with the artefacts of JPEG compression
    saturation.py                       Scale the chroma of colours

May import what all families of operators may: the contract of operators, `codecs`, `sampling`, `compiled`, `device.launch`, types.
"""
