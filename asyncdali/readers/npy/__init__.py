"""readers.numpy: whole arrays or slices of .npy files.

    npy.py  readers.numpy: arrays from .npy files, whole or in part
    npy_kernels.py, npy_tables.py
            Reads NumPy files without the interpreter: headers, then the elements, through any strides

May import `readers.files`, `readers.containers`, and what `readers` may.
"""
