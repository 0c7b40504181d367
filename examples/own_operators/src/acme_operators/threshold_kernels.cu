// threshold: replace each element by one of two values. Macro: T, the element type.
#include "kernel.cuh"
#include "threshold_tables.py"

KERNEL threshold(const int64 *context) {
    FOR_SAMPLES(sample, context[THRESHOLD_SAMPLES]) {
        const float32 *record = array<float32>(context, THRESHOLD_RECORDS) + 3 * sample;
        const T *source = at<const T>(address(context, THRESHOLD_INPUTS, sample));
        T *out = at<T>(address(context, THRESHOLD_OUTPUTS, sample));
        const T low = (T)record[1], high = (T)record[2];
        FOR_ITEMS(i, array<int64>(context, THRESHOLD_SIZES)[sample]) out[i] = (float32)source[i] >= record[0] ? high : low;
    }
}
