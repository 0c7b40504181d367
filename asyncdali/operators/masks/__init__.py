"""Operators that cover parts of a picture.

    erase.py, erase_kernels.py          Regions of a sample filled with a value
    grid_mask.py, grid_mask_kernels.py
                                        Black squares in a grid
    multi_paste.py, multi_paste_kernels.py
                                        Regions of several images on one canvas
    paste.py, paste_kernels.py          An image on a larger canvas

May import what all families of operators may: the contract of operators, `codecs`, `sampling`, `compiled`, `device.launch`, types.
"""
