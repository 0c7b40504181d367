"""Decoders as operators: images, sound, videos, arrays, compressed data. Knowledge of file formats is in `codecs`.

May import what all families of operators may: the contract of operators, `codecs`, `sampling`, `compiled`, `device.launch`, types.
"""
