"""Operators for object detection: boxes, anchors, crops that keep objects.

May import what all families of operators may: the contract of operators, `codecs`, `sampling`, `compiled`, `device.launch`, types.
"""
