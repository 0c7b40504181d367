"""Operators for object detection: boxes, anchors, crops that keep objects.

    random_bbox_crop_kernels.py         Random crops that keep boxes: proposals, their overlap with boxes, and the remaining boxes
    bbox_paste.py, bbox_paste_kernels.py, bbox_paste_tables.py
                                        Adjust boxes to an image that was pasted on a larger canvas
    bbox_rotate.py, bbox_rotate_kernels.py
                                        Adjust boxes to a rotated image
    box_encoder.py, box_encoder_kernels.py, box_encoder_tables.py
                                        Boxes and labels as targets for anchors (SSD)
    random_bbox_crop.py                 Random crops with a required overlap with boxes, and the boxes in them
    rows.py, rows_kernels.py            Batches of rows in one contiguous array, sample after sample: boxes, labels, polygons
    ssd_random_crop_kernels.py          The crop of single-shot detectors: windows are drawn until one overlaps all boxes enough
    ssd_random_crop.py                  Crop images, with their boxes and labels, as in the training of single-shot detectors

May import what all families of operators may: the contract of operators, `codecs`, `sampling`, `compiled`, `device.launch`, types.
"""
