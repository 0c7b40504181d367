"""Segments on a GPU.

    device_segments.py   planned as on the CPU, then queued on a stream
    device_decoding.py   a batch that the GPU's decoders and the CPU's threads decode together

May import: what the room may import; ``work``, ``templates`` and ``counting``.
"""
