"""Container files: where their records are, mapping them, reading records of a batch. The formats have folders of their own.

May import `readers.base` and `readers.remote`, and what `readers` may.
"""
