// Moving elements: one piece of every sample, copied between strided places. Later pieces overwrite earlier ones, so each has a launch of
// its own. Table: 0 output addresses, 1 pieces per sample, 2 axes, 3 records (as in strided_kernels.py), 4 input addresses, or 0 and
// 5 the array that all samples share, 6 samples, 7 the piece.
// Macros: IN, OUT element types.
#include "kernel.cuh"

KERNEL piece(const int64 *context) {
    const int64 pieces = context[1], axes = context[2];
    FOR_SAMPLES(sample, context[6]) {
        const int64 *r = array<int64>(context, 3) + (sample * pieces + context[7]) * (4 + 3 * axes);
        const int64 *extents = r + 4, *strides = extents + axes, *targets = strides + axes;
        const int64 source = (context[4] ? address(context, 4, sample) : context[5]) + r[1];
        const int64 out = address(context, 0, sample) + r[2];
        int64 count = 1;
        for (int64 k = 0; k < axes; ++k) count *= larger(extents[k], (int64)0);
        FOR_ITEMS(i, count) {
            int64 rest = i, from = source, to = out;
            for (int64 k = axes - 1; k >= 0; --k) {
                const int64 place = take(rest, extents[k]);
                from += place * strides[k];
                to += place * targets[k];
            }
            *at<OUT>(to) = r[3] ? *at<const OUT>(from) : sliced<OUT>(*at<const IN>(from));
        }
    }
}

// The index in 0..extent-1 that stands for `index`; borders as numbered in crop_rules.py (1 edge, 2 wrap, 3 reflect, 4 reflect_101).
DEVICE int64 bordered_index(int64 index, int64 extent, int64 border) {
    if (index >= 0 && index < extent) return index;
    if (border == 1) return index < 0 ? 0 : extent - 1;
    const int64 period = border == 2 ? extent : larger(2 * extent - (border == 4 ? 2 : 0), (int64)1);
    index %= period;
    if (index < 0) index += period;
    return index < extent ? index : period - index - (border == 4 ? 0 : 1);
}

// A window of an input that goes on beyond its bounds. The table is that of bordered steps (strided_kernels.py), then 5 samples.
KERNEL bordered(const int64 *context) {
    const int64 axes = context[3], border = context[4];
    FOR_SAMPLES(sample, context[5]) {
        const int64 *extents = array<int64>(context, 2) + 4 * axes * sample;
        const int64 *inputs = extents + axes, *begins = inputs + axes, *strides = begins + axes;
        const int64 source = address(context, 0, sample);
        OUT *out = at<OUT>(address(context, 1, sample));
        int64 count = 1;
        for (int64 k = 0; k < axes; ++k) count = inputs[k] > 0 ? count * extents[k] : 0;
        FOR_ITEMS(i, count) {
            int64 rest = i, from = source;
            for (int64 k = axes - 1; k >= 0; --k) from += bordered_index(take(rest, extents[k]) + begins[k], inputs[k], border) * strides[k];
            out[i] = sliced<OUT>(*at<const IN>(from));
        }
    }
}
