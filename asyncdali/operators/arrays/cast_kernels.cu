// cast: every element to another type. Macros: IN, OUT element types.
#include "kernel.cuh"
#include "cast_tables.py"

KERNEL cast(const int64 *context) {
    FOR_SAMPLES(sample, context[CAST_SAMPLES]) {
        const IN *source = at<const IN>(address(context, CAST_INPUTS, sample));
        OUT *out = at<OUT>(address(context, CAST_OUTPUTS, sample));
        FOR_ITEMS(i, array<int64>(context, CAST_COUNTS)[sample]) out[i] = convert<OUT>(source[i]);
    }
}
