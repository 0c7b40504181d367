// normalize, after the reductions: factors from variances, sums over a batch, and their application.
// Macros: IN, OUT element types.
#include "place.cuh"
#include "normalize_tables.py"

// `scale / sqrt(variance + epsilon)` in place; 0 for 0.
KERNEL factors(const int64 *context) {
    const float32 scale = array<float32>(context, FACTORS_SCALE_AND_EPSILON)[0], epsilon = array<float32>(context, FACTORS_SCALE_AND_EPSILON)[1];
    FOR_SAMPLES(sample, context[FACTORS_SAMPLES]) {
        float32 *values = at<float32>(place(context, FACTORS_VARIANCES_ADDRESSES, sample));
        FOR_ITEMS(i, address(context, FACTORS_COUNTS, sample)) {
            const float32 x = address(context, FACTORS_KNOWN, sample) ? values[i] + epsilon : epsilon;
            values[i] = x != 0 ? scale * (float32)(1 / sqrt((float64)x)) : 0;
        }
    }
}

// The sum of the values of all samples, scaled.
KERNEL over_batch(const int64 *context) {
    const int64 count = context[OVER_BATCH_COUNT];
    FOR_ITEMS(i, count) {
        float64 total = 0;
        for (int64 sample = 0; sample < context[OVER_BATCH_SAMPLES]; ++sample) total += array<float32>(context, OVER_BATCH_VALUES)[sample * count + i];
        at<float32>(context[OVER_BATCH_RESULT])[i] = (float32)total * array<float32>(context, OVER_BATCH_SCALE)[0];
    }
}

// `(in - mean) * factor + shift`, rounded and saturated.
KERNEL apply(const int64 *context) {
    const int64 groups = context[APPLY_GROUPS];
    const float32 shift = array<float32>(context, APPLY_SHIFT)[0];
    FOR_SAMPLES(sample, context[APPLY_SAMPLES]) {
        const int64 *extents = array<int64>(context, APPLY_RECORDS) + 3 * groups * sample, *in_means = extents + groups, *in_factors = in_means + groups;
        const int64 source = address(context, APPLY_INPUTS, sample), out = address(context, APPLY_OUTPUTS, sample);
        const float32 *means = at<const float32>(place(context, APPLY_MEANS_ADDRESSES, sample)), *factors = at<const float32>(place(context, APPLY_FACTORS_ADDRESSES, sample));
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
