"""readers.numpy: whole arrays or slices of .npy files.

May import `readers.files`, `readers.containers`, and what `readers` may.
"""
