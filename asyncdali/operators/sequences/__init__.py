"""Sequences of frames: reordered frames, motion between frames, and arguments with one value per frame.

    element_extract.py                  Frames of sequences as outputs
    element_extract_kernels.py, element_extract_tables.py
                                        The compiled step that copies frames of sequences: one block of memory per frame
    optical_flow.py, optical_flow_kernels.py
                                        The motion of the parts of a picture from one frame to the next
    per_frame.py                        Mark samples as sequences of frames
    per_frame_arguments.py              Per-frame arguments: operators that treat every frame of a sequence as a sample
    sequence_rearrange.py, sequence_rearrange_kernels.py
                                        Reorder frames

May import what all families of operators may: the contract of operators, `codecs`, `sampling`, `compiled`, `device.launch`, types.
"""
