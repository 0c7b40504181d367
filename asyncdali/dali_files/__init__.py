"""Files of DALI: its checkpoints, and the wire format of checkpoints and serialized pipelines.

    checkpoints.py  checkpoints, read and written
    protobuf.py     messages in the wire format of protocol buffers

``graph/dali_pipelines.py`` makes graphs of serialized pipelines; ``graph/dali_written.py`` writes graphs. May import `errors`.
"""
