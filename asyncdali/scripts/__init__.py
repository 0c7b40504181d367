"""The index scripts: tfrecord2idx, rec2idx, wds2idx."""
