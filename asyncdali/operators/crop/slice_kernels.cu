// slice: windows that extend beyond the bounds of the input. Macros: IN, OUT element types.
#include "kernel.cuh"
#include "slice.py"

// The index in 0..extent-1 that `index` maps to; borders as numbered in crop_rules.py (1 edge, 2 wrap, 3 reflect, 4 reflect_101).
DEVICE int64 bordered_index(int64 index, int64 extent, int64 border) {
    if (index >= 0 && index < extent) return index;
    if (border == 1) return index < 0 ? 0 : extent - 1;
    const int64 period = border == 2 ? extent : larger(2 * extent - (border == 4 ? 2 : 0), (int64)1);
    index %= period;
    if (index < 0) index += period;
    return index < extent ? index : period - index - (border == 4 ? 0 : 1);
}

KERNEL bordered(const int64 *context) {
    const int64 axes = context[BORDERED_AXES], border = context[BORDERED_BORDER];
    FOR_SAMPLES(sample, context[BORDERED_SAMPLES]) {
        const int64 *extents = array<int64>(context, BORDERED_RECORDS) + 4 * axes * sample;
        const int64 *inputs = extents + axes, *begins = inputs + axes, *strides = begins + axes;
        const int64 source = address(context, BORDERED_INPUTS, sample);
        OUT *out = at<OUT>(address(context, BORDERED_OUTPUTS, sample));
        int64 count = 1, elements = 1;
        for (int64 k = 0; k < axes; ++k) count *= extents[k], elements *= inputs[k];
        FOR_ITEMS(i, count) {
            if (elements == 0) {
                out[i] = OUT();
                continue;
            }
            int64 rest = i, from = source;
            for (int64 k = axes - 1; k >= 0; --k) from += bordered_index(take(rest, extents[k]) + begins[k], inputs[k], border) * strides[k];
            out[i] = sliced<OUT>(*at<const IN>(from));
        }
    }
}
