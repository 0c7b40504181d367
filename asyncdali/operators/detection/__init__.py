"""Operators for detection and segmentation: boxes, anchors, crops that keep objects."""
