"""dump_image, which writes images to files.

    dump_image.py, dump_image_kernels.py
                   dump_image: write images to files, for debugging

May import what all families of operators may: the contract of operators, `codecs`, `sampling`, `compiled`, `device.launch`, types.
"""
