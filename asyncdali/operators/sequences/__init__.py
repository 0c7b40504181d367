"""Sequences of frames: reordered frames, motion between frames, and arguments with one value per frame.

May import what all families of operators may: the contract of operators, `codecs`, `sampling`, `compiled`, `device.launch`, types.
"""
