// normalize, after the reductions: variances to factors, sums over a batch, and the application of both.
// Macros: IN, OUT element types.
#include "place.cuh"

// `scale / sqrt(variance + epsilon)` in place; 0 for 0. Table: 0-2 place of the variances (float32), 3 counts int64[samples], 4 int64[samples]
// whether there is a variance (else it counts as 0), 5 scale and epsilon float32[2], 6 samples.
KERNEL factors(const int64 *context) {
    const float32 scale = array<float32>(context, 5)[0], epsilon = array<float32>(context, 5)[1];
    FOR_SAMPLES(sample, context[6]) {
        float32 *values = at<float32>(place(context, 0, sample));
        FOR_ITEMS(i, address(context, 3, sample)) {
            const float32 x = address(context, 4, sample) ? values[i] + epsilon : epsilon;
            values[i] = x != 0 ? scale * (float32)(1 / sqrt((float64)x)) : 0;
        }
    }
}

// The sum of all samples' values, scaled. Table: 0 values float32[samples, count], 1 count, 2 samples, 3 scale float32[1], 4 result.
KERNEL over_batch(const int64 *context) {
    const int64 count = context[1];
    FOR_ITEMS(i, count) {
        float64 total = 0;
        for (int64 sample = 0; sample < context[2]; ++sample) total += array<float32>(context, 0)[sample * count + i];
        at<float32>(context[4])[i] = (float32)total * array<float32>(context, 3)[0];
    }
}

// `(in - mean) * factor + shift`, rounded and saturated. Table: 0 input addresses, 1 output addresses, 2 records int64[samples, 3, groups]
// (extents, strides in the means, strides in the factors, in elements), 3 groups, 4-6 place of the means, 7-9 place of the factors, 10 shift
// float32[1], 11 samples.
KERNEL apply(const int64 *context) {
    const int64 groups = context[3];
    const float32 shift = array<float32>(context, 10)[0];
    FOR_SAMPLES(sample, context[11]) {
        const int64 *extents = array<int64>(context, 2) + 3 * groups * sample, *in_means = extents + groups, *in_factors = in_means + groups;
        const int64 source = address(context, 0, sample), out = address(context, 1, sample);
        const float32 *means = at<const float32>(place(context, 4, sample)), *factors = at<const float32>(place(context, 7, sample));
        int64 count = 1;
        for (int64 k = 0; k < groups; ++k) count *= extents[k];
        FOR_ITEMS(item, (count + PACK - 1) / PACK) {
            const int64 i = item * PACK;
            const Pack<IN> pack = row_pack<IN>(source, 1, i, count);
            Pack<OUT> result = {};
            #pragma unroll
            for (int j = 0; j < PACK; ++j) {
                if (i + j >= count) break;
                int64 rest = i + j, m = 0, f = 0;
                for (int64 k = groups - 1; k >= 0; --k) {
                    const int64 index = k ? take(rest, extents[k]) : rest;
                    m += index * in_means[k];
                    f += index * in_factors[k];
                }
                result.element[j] = convert<OUT>(((float32)value_of(pack.element[j]) - means[m]) * factors[f] + shift);
            }
            put(out, i, count, result);
        }
    }
}
