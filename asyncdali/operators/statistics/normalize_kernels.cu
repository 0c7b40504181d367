// normalize, after the reductions: compute factors from variances, sum over a batch, and apply means and factors.
// Macros: IN, OUT element types; CHANNELS (1 to 4): the means and factors of `apply_channels` repeat after this number of elements.
#define RESIDENT 4
#include "place.cuh"
#include "normalize_tables.py"

// Replace variances by `scale / sqrt(variance + epsilon)`; the factor is 0 where the sum is 0.
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
DEVICE OUT normalized(IN element, float32 mean, float32 factor, float32 shift) {
    return convert<OUT>((real(value_of(element)) - mean) * factor + shift);
}

struct Sample {
    const int64 *extents, *in_means, *in_factors;
    int64 source, out, count;
    const float32 *means, *factors;
};

DEVICE Sample sample_of(const int64 *context, int64 sample) {
    const int64 groups = context[APPLY_GROUPS];
    Sample found;
    found.extents = array<int64>(context, APPLY_RECORDS) + 3 * groups * sample;
    found.in_means = found.extents + groups, found.in_factors = found.in_means + groups;
    found.source = address(context, APPLY_INPUTS, sample), found.out = address(context, APPLY_OUTPUTS, sample);
    found.means = at<const float32>(place(context, APPLY_MEANS_ADDRESSES, sample));
    found.factors = at<const float32>(place(context, APPLY_FACTORS_ADDRESSES, sample));
    found.count = 1;
    for (int64 k = 0; k < groups; ++k) found.count *= found.extents[k];
    return found;
}

#ifndef CHANNELS
#define CHANNELS 1
#endif

#define THREADS 256
#define AT_ONCE 4  // packs that a thread has in flight

// PACK neighbouring elements, which may begin anywhere. Loads come first, so that all packs of a thread are loaded at the same time.
template <class T> struct Given {
    Pack<T> pack;
    DEVICE_MEMBER void load(int64 from) {
        if (from % (int64)sizeof(Pack<T>) == 0) {
            pack = *at<const Pack<T>>(from);
            return;
        }
        #pragma unroll
        for (int32 j = 0; j < PACK; ++j) pack.element[j] = at<const T>(from)[j];
    }
    DEVICE_MEMBER Pack<T> elements(int64) const { return pack; }
};
template <> struct Given<uint8> {
    uint32 low, high;
    DEVICE_MEMBER void load(int64 from) {
        const int64 word = from & -4ll;
        low = word_at(word), high = from & 3 ? word_at(word + 4) : 0;
    }
    DEVICE_MEMBER Pack<uint8> elements(int64 from) const {
        union { uint32 word; Pack<uint8> pack; } both;
        both.word = __funnelshift_r(low, high, 8 * (int32)(from & 3));
        return both.pack;
    }
};

// Element i uses mean and factor number i % CHANNELS. All means and factors stay in registers.
KERNEL apply_channels(const int64 *context) {
    const int64 last = context[APPLY_GROUPS] - 1;
    const float32 shift = array<float32>(context, APPLY_SHIFT)[0];
    FOR_SAMPLES(number, context[APPLY_SAMPLES]) {
        const Sample sample = sample_of(context, number);
        if (!sample.count) continue;
        float32 mean[CHANNELS], factor[CHANNELS];
        #pragma unroll
        for (int32 c = 0; c < CHANNELS; ++c) {
            mean[c] = sample.means[CHANNELS > 1 ? c * sample.in_means[last] : 0];
            factor[c] = sample.factors[CHANNELS > 1 ? c * sample.in_factors[last] : 0];
        }
        // m[k], f[k]: mean and factor of the element k behind a thread's first element, which has number `before`.
        float32 m[CHANNELS], f[CHANNELS];
        int32 before = -1;
        const int64 turn = (int64)THREADS * PACK * AT_ONCE, size = (int64)sizeof(IN);
        for (int64 i = turn * blockIdx.x + PACK * threadIdx.x - behind_pack<OUT>(sample.out); i < sample.count; i += turn * gridDim.x) {
            const int32 first = CHANNELS == 1 ? 0 : (int32)((uint64)(i + CHANNELS * PACK) % CHANNELS);
            if (first != before) {
                before = first;
                #pragma unroll
                for (int32 c = 0; c < CHANNELS; ++c) {
                    m[c] = mean[c], f[c] = factor[c];
                    #pragma unroll
                    for (int32 by = 1; by < CHANNELS; ++by) {
                        if (first == by) m[c] = mean[(c + by) % CHANNELS], f[c] = factor[(c + by) % CHANNELS];
                    }
                }
            }
            if (i >= 0 && i + (AT_ONCE - 1) * THREADS * PACK + PACK <= sample.count) {
                Given<IN> given[AT_ONCE];
                const int64 from = sample.source + i * size;
                #pragma unroll
                for (int32 k = 0; k < AT_ONCE; ++k) given[k].load(from + k * THREADS * PACK * size);
                #pragma unroll
                for (int32 k = 0; k < AT_ONCE; ++k) {
                    const Pack<IN> pack = given[k].elements(from);
                    Pack<OUT> result;
                    #pragma unroll
                    for (int32 j = 0; j < PACK; ++j) {
                        const int32 c = (k * THREADS * PACK + j) % CHANNELS;
                        result.element[j] = normalized(pack.element[j], m[c], f[c], shift);
                    }
                    *at<Pack<OUT>>(sample.out + (i + k * THREADS * PACK) * (int64)sizeof(OUT)) = result;
                }
                continue;
            }
            #pragma unroll
            for (int32 k = 0; k < AT_ONCE; ++k) {
                const int64 begin = i + k * THREADS * PACK;
                if (begin >= sample.count) break;
                const Pack<IN> pack = row_pack<IN>(sample.source, 1, begin, sample.count);
                Pack<OUT> result;
                #pragma unroll
                for (int32 j = 0; j < PACK; ++j) {
                    const int32 c = (k * THREADS * PACK + j) % CHANNELS;
                    result.element[j] = normalized(pack.element[j], m[c], f[c], shift);
                }
                put(sample.out, begin, sample.count, result);
            }
        }
    }
}

KERNEL apply(const int64 *context) {
    const int64 groups = context[APPLY_GROUPS];
    const float32 shift = array<float32>(context, APPLY_SHIFT)[0];
    FOR_SAMPLES(number, context[APPLY_SAMPLES]) {
        const Sample sample = sample_of(context, number);
        FOR_PACKS(i, OUT, sample.out, sample.count) {
            const Pack<IN> pack = row_pack<IN>(sample.source, 1, i, sample.count);
            Pack<OUT> result = {};
            #pragma unroll
            for (int j = 0; j < PACK; ++j) {
                if (i + j < 0 || i + j >= sample.count) continue;
                int64 rest = i + j, m = 0, f = 0;
                for (int64 k = groups - 1; k >= 0; --k) {
                    const int64 index = k ? take(rest, sample.extents[k]) : rest;
                    m += index * sample.in_means[k];
                    f += index * sample.in_factors[k];
                }
                result.element[j] = normalized(pack.element[j], sample.means[m], sample.factors[f], shift);
            }
            put(sample.out, i, sample.count, result);
        }
    }
}
