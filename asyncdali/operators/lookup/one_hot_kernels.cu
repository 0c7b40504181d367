// one_hot. Macros: IN: element type of the input; OUT: the unsigned integer with the size of an output element. Output elements
// are copied bit by bit, so kernels for signed integers and floats are not needed.
#include "kernel.cuh"
#include "one_hot.py"

KERNEL one_hot(const int64 *context) {
    const OUT off = array<OUT>(context, ONE_HOT_VALUES)[0], on = array<OUT>(context, ONE_HOT_VALUES)[1];
    FOR_SAMPLES(sample, context[ONE_HOT_SAMPLES]) {
        const int64 *r = array<int64>(context, ONE_HOT_RECORDS) + ONE_HOT_RECORD_WORDS * sample;
        const int64 outer = r[ONE_HOT_RECORD_OUTER], classes = r[ONE_HOT_RECORD_CLASSES], inner_extent = r[ONE_HOT_RECORD_INNER];
        const IN *source = at<const IN>(address(context, ONE_HOT_INPUTS, sample));
        OUT *out = at<OUT>(address(context, ONE_HOT_OUTPUTS, sample));
        FOR_ITEMS(i, outer * classes * inner_extent) {
            int64 rest = i;
            const int64 inner = take(rest, inner_extent), place = take(rest, classes);
            out[i] = (int64)value_of(source[rest * inner_extent + inner]) == place ? on : off;
        }
    }
}
