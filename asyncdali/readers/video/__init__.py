"""Sequences of frames: readers.video and readers.video_resize from videos, readers.sequence from image files.

    frame_files.py      Image files as the frames of a sequence
    sequence.py         readers.sequence: sequences of frames that are stored as image files
    sequence_kernels.py, sequence_tables.py
                        Puts decoded frames together to sequences
    video.py            readers.video and experimental.readers.video: sequences of frames from video files
    video_files.py      Video files of a data set: their frames, and a pool of open files
    video_resize.py     readers.video_resize: sequences of frames from video files, resized
    video_sequences.py  Decides which frames make a sequence: parts of videos, and the starts of sequences in them

May import `readers.files`, `readers.containers`, `readers.remote`, `operators.resize`, and what `readers` may.
"""
