"""readers.coco: annotations from JSON or preprocessed arrays, and masks drawn from polygons.

    coco.py              readers.coco: encoded images with boxes, labels and masks of COCO annotations
    coco_annotations.py  COCO annotations as tables: read from JSON files, and stored in folders of preprocessed arrays
    coco_kernels.py, coco_tables.py
                         Gathers the rows of annotations, and draws masks from polygons

May import `readers.files`, `readers.containers`, `readers.remote`, and what `readers` may.
"""
