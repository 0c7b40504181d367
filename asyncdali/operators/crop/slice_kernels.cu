// slice: windows that extend beyond the bounds of the input. Macros: IN, OUT element types.
#include "inside.cuh"
#include "slice.py"

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
            for (int64 k = axes - 1; k >= 0; --k) from += inside(take(rest, extents[k]) + begins[k], inputs[k], border) * strides[k];
            out[i] = sliced<OUT>(*at<const IN>(from));
        }
    }
}
