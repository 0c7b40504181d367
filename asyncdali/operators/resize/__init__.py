"""Other sizes: resize and all that resamples along the axes of an image.

May import what all families of operators may, and `operators.crop` (rules of windows).
"""
