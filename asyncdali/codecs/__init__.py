"""Encoded data, for readers and decoders: headers, formats, and decoding without operators.

Images (image_headers, image_formats, jpeg/), sound (audio/), videos (video/) and NumPy files (npy_headers).
May import `batch`, `compiled`, `types`, `device.launch` and the contract of operators (`operators.base`); no reader and no operator.
"""
