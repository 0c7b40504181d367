"""Decoders as operators: images, sound, videos, arrays, compressed data. Knowledge of file formats is in `codecs`.

    audio_decoder.py                      decoders.audio: decode sound; optionally resample it and mix its channels
    image_decoder_lanes.py                Assignment of samples to decoders in mixed decoders
    image_decoder_windows.py              Windows of the cropping decoders
    image_decoder.py                      decoders.image, image_crop, image_random_crop, image_slice
    inflate.py, inflate_kernels.py        decoders.inflate: compressed data as tensors
    image_decoder_kernels.py              Select the JPEGs for each decoder of a GPU, and describe them to the GPU's decoders and the CPU
    lane_balance.py                       Distribution of JPEGs between a GPU's engines and the CPU by load
    numpy_decoder.py, numpy_decoder_kernels.py
                                          decoders.numpy: NumPy files in memory as arrays
    peek_image_shape.py, peek_image_shape_kernels.py
                                          The shape that an encoded image will have, from its header
    image_cache.py                        The cache of decoded pictures
    image_cache_kernels.py, image_cache_tables.py
                                          Compiled steps of the cache of decoded pictures
    png_samples.py                        The PNG files of a batch that compiled code decodes
    video_decoder.py                      decoders.video: frames of encoded videos

May import what all families of operators may: the contract of operators, `codecs`, `sampling`, `compiled`, `device.launch`, types.
"""
