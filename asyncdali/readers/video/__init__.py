"""Sequences of frames: readers.video and readers.video_resize from videos, readers.sequence from image files.

May import `readers.files`, `readers.containers`, `readers.remote`, `operators.resize`, and what `readers` may.
"""
