"""Automatic augmentations: AutoAugment, RandAugment, TrivialAugment, and the parts to build others.

    from asyncdali.auto_aug import rand_augment

    @pipeline_def(batch_size=64, num_threads=4, device_id=None)
    def training():
        encoded, labels = fn.readers.file(file_root="train", random_shuffle=True)
        images = fn.decoders.image(encoded)
        images = rand_augment.rand_augment(images, n=2, m=9, shape=fn.peek_image_shape(encoded))
        return fn.crop_mirror_normalize(images, crop=[224, 224], dtype=types.FLOAT), labels

Modules: ``auto_augment``, ``rand_augment``, ``trivial_augment`` (the algorithms), ``augmentations`` (the operations), ``core`` (the
decorator ``augmentation``, ``Policy``, ``select``, ``signed_bin``). The same seed chooses the same operations, magnitudes and signs as
DALI does. Conditional execution need not be enabled.

    core/               The decorator `augmentation`, `Policy`, `select` and `signed_bin`
    _suites.py          Common parts of the algorithms: operations with their ranges of magnitudes, and checks of arguments
    augmentations.py    The operations of automatic augmentations
    auto_augment.py     AutoAugment: applies one of a policy's sub-policies to each sample
    rand_augment.py     RandAugment: applies a few operations in a row, each drawn from a suite, all with one magnitude
    trivial_augment.py  TrivialAugment: applies one operation per sample, drawn from a suite, with a magnitude drawn at random

May import `fn`, `data_node`, choices of the graph, and `types`; never the runtime or the pipeline.
"""
