// cast: every element to another type. The table is that of cast_kernels.py, then 3 samples. Macros: IN, OUT element types.
#include "kernel.cuh"

KERNEL cast(const int64 *context) {
    FOR_SAMPLES(sample, context[3]) {
        const IN *source = at<const IN>(address(context, 0, sample));
        OUT *out = at<OUT>(address(context, 1, sample));
        FOR_ITEMS(i, array<int64>(context, 2)[sample]) out[i] = convert<OUT>(source[i]);
    }
}
