// lookup_table. Macros: IN: element type of the input; OUT: the unsigned integer with the size of an output element. Output elements
// are copied bit by bit, so kernels for signed integers and floats are not needed.
#include "kernel.cuh"
#include "lookup_table.py"

KERNEL lookup(const int64 *context) {
    const OUT *table = array<OUT>(context, LOOKUP_TABLE);
    const uint64 length = context[LOOKUP_LENGTH];
    FOR_SAMPLES(sample, context[LOOKUP_SAMPLES]) {
        const int64 source = address(context, LOOKUP_INPUTS, sample), out = address(context, LOOKUP_OUTPUTS, sample);
        const int64 count = array<int64>(context, LOOKUP_COUNTS)[sample];
        FOR_PACKS(i, OUT, out, count) {
            const Pack<IN> pack = row_pack<IN>(source, 1, i, count);
            Pack<OUT> result;
            #pragma unroll
            for (int j = 0; j < PACK; ++j) {
                const uint64 key = (uint64)(int64)value_of(pack.element[j]);  // negative keys become too large
                result.element[j] = table[smaller(key, length)];
            }
            put(out, i, count, result);
        }
    }
}
