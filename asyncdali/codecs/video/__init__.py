"""Encoded videos, through PyAV (FFmpeg's libraries). The colours of most frames are converted in compiled code.

video_index.py     the frames of a video, and its packets
video_formats.py   decoding of single frames
video_padding.py   frames in place of those that a video does not have
frame_colours.py   decoded frames to RGB: our own kernel where it has swscale's pixels, swscale elsewhere

May import what `codecs` may.
"""
