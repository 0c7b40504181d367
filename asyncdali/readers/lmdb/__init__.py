"""LMDB databases by their file format, and the readers of what Caffe and Caffe2 keep in them.

    caffe.py, caffe_kernels.py, caffe_tables.py
                                        readers.caffe: images and labels of Caffe's Datum records in LMDB databases
    caffe2.py, caffe2_kernels.py, caffe2_tables.py
                                        readers.caffe2: images, labels and further tensors of Caffe2's TensorProtos records in LMDB
                                        databases
    lmdb.py, lmdb_kernels.py, lmdb_tables.py
                                        LMDB databases as containers: finds the place of each value in the file

May import `readers.containers`, `readers.base`, `readers.remote`, and what `readers` may.
"""
