// noise.gaussian, noise.shot and noise.salt_and_pepper: the position of an element in its sample determines its draws. The table is NOISE.
// Macros: IN, OUT element types (equal).
#include "../../sampling/poisson.cuh"
#include "noise.py"

DEVICE Counter counter_of(const int64 *context, int64 sample) {
    return Counter{(uint64)context[NOISE_POSITION_KEY], (uint64)context[NOISE_POSITION_HI] + 65537u * (uint64)sample, (uint64)context[NOISE_POSITION_LO]};
}

DEVICE uint64 offset_of(const int64 *context, int64 i) { return (uint64)context[NOISE_POSITION_PHASE] + 257u * (uint64)i; }

// A thread computes four neighbouring elements. Their draws begin at the four different words of a block of random words. In float32, only
// the draw at the last word needs a second block. With one element per thread, every warp would compute two blocks for each element.
KERNEL gaussian(const int64 *context) {
    FOR_SAMPLES(sample, context[NOISE_SAMPLES]) {
        const Counter counter = counter_of(context, sample);
        const float32 mean = array<float32>(context, NOISE_PARAMETERS)[2 * sample], deviation = array<float32>(context, NOISE_PARAMETERS)[2 * sample + 1];
        const int64 source = address(context, NOISE_INPUTS, sample), out = address(context, NOISE_OUTPUTS, sample);
        const int64 count = array<int64>(context, NOISE_COUNTS)[sample];
        FOR_PACKS(i, OUT, out, count) {
            const Pack<IN> given = row_pack<IN>(source, 1, i, count);
            Pack<OUT> made;
            #pragma unroll
            for (int32 j = 0; j < PACK; ++j) {
                if constexpr (sizeof(IN) >= 4 && !Kind<IN>::is_float)
                    made.element[j] = convert<OUT>((float64)given.element[j] + fma(normal64(counter, offset_of(context, i + j)), (float64)deviation, (float64)mean));
                else
                    made.element[j] = convert<OUT>((float32)given.element[j] + fmaf(normal32(counter, offset_of(context, i + j)), deviation, mean));
            }
            put(out, i, count, made);
        }
    }
}

DEVICE float64 mean_of(float32 element, float32 inverse) {
    const float32 mean = element * inverse;
    return (float64)(mean > 0 ? mean : 0.0f);
}

// Bytes have 256 different means, so a block computes what their counts share once for a sample.
KERNEL shot(const int64 *context) {
    constexpr int32 MEANS = Same<IN, uint8>::value ? 256 : 1;
    __shared__ float64 factorials[FACTORIALS];
    __shared__ PoissonMean means[MEANS];
    for (int32 k = threadIdx.x; k < FACTORIALS; k += blockDim.x) factorials[k] = lgamma((float64)k);
    FOR_SAMPLES(sample, context[NOISE_SAMPLES]) {
        const Counter counter = counter_of(context, sample);
        const float32 factor = array<float32>(context, NOISE_PARAMETERS)[sample], inverse = 1.0f / factor;
        const IN *source = at<const IN>(address(context, NOISE_INPUTS, sample));
        OUT *out = at<OUT>(address(context, NOISE_OUTPUTS, sample));
        __syncthreads();
        if (MEANS > 1 && factor != 0) {
            for (int32 k = threadIdx.x; k < MEANS; k += blockDim.x) means[k].set(mean_of((float32)k, inverse));
        }
        __syncthreads();
        FOR_ITEMS(i, array<int64>(context, NOISE_COUNTS)[sample]) {
            float32 events = 0;
            if (factor != 0) {
                Stream stream(counter, offset_of(context, i));
                if constexpr (MEANS > 1) {
                    events = (float32)poisson(stream, means[(int32)source[i]], factorials);
                } else {
                    PoissonMean mean;
                    mean.set(mean_of((float32)source[i], inverse));
                    events = (float32)poisson(stream, mean, factorials);
                }
            }
            out[i] = convert<OUT>(events * factor);
        }
    }
}

KERNEL salt_and_pepper(const int64 *context) {
    FOR_SAMPLES(sample, context[NOISE_SAMPLES]) {
        const Counter counter = counter_of(context, sample);
        const float32 chance = array<float32>(context, NOISE_PARAMETERS)[2 * sample], salt_chance = array<float32>(context, NOISE_PARAMETERS)[2 * sample + 1];
        const IN salt = array<IN>(context, NOISE_FLAVOURS)[2 * sample], pepper = array<IN>(context, NOISE_FLAVOURS)[2 * sample + 1];
        const int64 together = array<int64>(context, NOISE_TOGETHER)[sample], inner = array<int64>(context, NOISE_INNER)[sample];
        const IN *source = at<const IN>(address(context, NOISE_INPUTS, sample));
        OUT *out = at<OUT>(address(context, NOISE_OUTPUTS, sample));
        FOR_ITEMS(pixel, array<int64>(context, NOISE_COUNTS)[sample] ? array<int64>(context, NOISE_COUNTS)[sample] / together : 0) {
            const uint64 offset = offset_of(context, pixel);
            const float32 draw = (float32)picked(words_of(counter, offset >> 2), (uint32)offset & 3) * TWO_TO_MINUS_32;
            const int64 first = pixel / inner * inner * together + pixel % inner;
            for (int64 c = 0; c < together; ++c) {
                const int64 e = first + c * inner;
                out[e] = (OUT)(!(draw < chance) ? source[e] : draw < salt_chance ? salt : pepper);
            }
        }
    }
}
