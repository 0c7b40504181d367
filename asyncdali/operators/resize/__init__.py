"""Operators that change sizes: resize, and all operators that resample along the axes of an image.

May import what all families of operators may, and `operators.crop` (rules of windows).
"""
