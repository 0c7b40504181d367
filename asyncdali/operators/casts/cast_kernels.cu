// cast: every element to another type. Macros: IN, OUT element types.
#include "lines.cuh"
#include "cast.py"

KERNEL cast(const int64 *context) {
    FOR_SAMPLES(sample, context[CAST_SAMPLES]) {
        const int64 source = address(context, CAST_INPUTS, sample), out = address(context, CAST_OUTPUTS, sample);
        const int64 count = array<int64>(context, CAST_COUNTS)[sample];
        if constexpr (Same<IN, OUT>::value) copy_lines(source, out, count * (int64)sizeof(IN));
        else map_groups<1, IN, OUT>(source, out, count, [](const IN *in, OUT *made) { *made = convert<OUT>(*in); });
    }
}
