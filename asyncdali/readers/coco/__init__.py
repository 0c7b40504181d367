"""readers.coco: annotations from JSON or preprocessed arrays, and masks drawn from polygons.

May import `readers.files`, `readers.containers`, `readers.remote`, and what `readers` may.
"""
