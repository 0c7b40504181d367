"""Encoded videos, through PyAV (FFmpeg's libraries). The colours of most frames are converted in compiled code.

video_index.py     the frames of a video, and its packets
video_frames.py    decoding of single frames
video_padding.py   frames in place of those that a video does not have
frame_colours.py   decoded frames to RGB: our own kernel where it has swscale's pixels, swscale elsewhere

    frame_colour_kernels.py, frame_colour_tables.py
                                        Decoded frames to RGB, with the pixels of swscale's most accurate conversion (bilinear chroma, 30
                                        bits, rounding to nearest)

May import what `codecs` may.
"""
