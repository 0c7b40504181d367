// lookup_table and one_hot. Outputs are moved, not computed: OUT is the unsigned integer of their size.
// Macros: IN, OUT element types.
#include "kernel.cuh"

// Table: 0 input addresses, 1 output addresses, 2 counts int64[samples], 3 table, 4 its length (the entry after the last is the default),
// 5 samples.
KERNEL lookup(const int64 *context) {
    const OUT *table = array<OUT>(context, 3);
    const uint64 length = context[4];
    FOR_SAMPLES(sample, context[5]) {
        const int64 source = address(context, 0, sample), out = address(context, 1, sample), count = array<int64>(context, 2)[sample];
        FOR_ITEMS(item, (count + PACK - 1) / PACK) {
            const Pack<IN> pack = row_pack<IN>(source, 1, item * PACK, count);
            Pack<OUT> result;
            #pragma unroll
            for (int j = 0; j < PACK; ++j) {
                const uint64 key = (uint64)(int64)value_of(pack.element[j]);  // what is negative is large without a sign
                result.element[j] = table[smaller(key, length)];
            }
            put(out, item * PACK, count, result);
        }
    }
}

// Table: 0 input addresses, 1 output addresses, 2 records int64[samples, 3] (elements before the new axis, its extent, elements after),
// 3 the values off and on, 4 samples.
KERNEL one_hot(const int64 *context) {
    const OUT off = array<OUT>(context, 3)[0], on = array<OUT>(context, 3)[1];
    FOR_SAMPLES(sample, context[4]) {
        const int64 *r = array<int64>(context, 2) + 3 * sample;
        const IN *source = at<const IN>(address(context, 0, sample));
        OUT *out = at<OUT>(address(context, 1, sample));
        FOR_ITEMS(i, r[0] * r[1] * r[2]) {
            int64 rest = i;
            const int64 inner = take(rest, r[2]), place = take(rest, r[1]);
            out[i] = (int64)value_of(source[rest * r[2] + inner]) == place ? on : off;
        }
    }
}
