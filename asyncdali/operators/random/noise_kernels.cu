// noise.gaussian, noise.shot and noise.salt_and_pepper: the position of an element in its sample determines its draws. The table is NOISE.
// Macros: IN, OUT element types (equal).
#include "../../device/lines.cuh"
#include "../../sampling/poisson.cuh"
#include "noise.py"

DEVICE Counter counter_of(const int64 *context, int64 sample) {
    return Counter{(uint64)context[NOISE_POSITION_KEY], (uint64)context[NOISE_POSITION_HI] + 65537u * (uint64)sample, (uint64)context[NOISE_POSITION_LO]};
}

#define ELEMENT_WORDS 257u  // words between the draws of neighbouring elements
DEVICE uint64 offset_of(const int64 *context, int64 i) { return (uint64)context[NOISE_POSITION_PHASE] + ELEMENT_WORDS * (uint64)i; }

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

#define EACH 32  // neighbouring elements that a thread computes, as ShotNoise.each
#define TURNS 2  // blocks of words between two looks at the counts: most counts need several, and some thread of a warp always knows one
#define MARGIN 1e-4f  // a product in float32 that differs from the limit by more than this part lies on the same side in float64

// exp(-mean), which ends the product of the draws; 2 for means that are drawn by rejection.
DEVICE float32 limit_of(float64 mean) { return mean < 12 ? (float32)exp(-mean) : 2.0f; }

// For a small mean, uniform numbers are drawn until their product falls below a limit. A number has two random words. The higher word and
// float32 nearly always decide; a block of words has two numbers. A thread starts its next element as soon as it knows a count: if
// the threads of a warp waited for the largest count, they would wait half of the time. Bytes have 256 different means, so a block computes
// what their counts share once for a sample.
KERNEL_OF(4) shot(const int64 *context) {
    constexpr int32 MEANS = Same<IN, uint8>::value ? 256 : 1;
    __shared__ float64 factorials[FACTORIALS];
    __shared__ PoissonMean means[MEANS];
    __shared__ float32 limits[MEANS];
    __shared__ uint16 listed[256 * EACH];  // elements that float64 has to count; one takes as long as many others
    __shared__ int32 exact;                // their number
    if (threadIdx.x == 0) exact = 0;
    for (int32 k = threadIdx.x; k < FACTORIALS; k += blockDim.x) factorials[k] = lgamma((float64)k);
    FOR_SAMPLES(sample, context[NOISE_SAMPLES]) {
        const Counter counter = counter_of(context, sample);
        const float32 factor = array<float32>(context, NOISE_PARAMETERS)[sample], inverse = 1.0f / factor;
        const IN *source = at<const IN>(address(context, NOISE_INPUTS, sample));
        OUT *out = at<OUT>(address(context, NOISE_OUTPUTS, sample));
        const int64 count = array<int64>(context, NOISE_COUNTS)[sample];
        __syncthreads();
        for (int32 k = threadIdx.x; MEANS > 1 && factor != 0 && k < MEANS; k += blockDim.x) {
            const float64 mean = mean_of((float32)k, inverse);
            means[k].set(mean), limits[k] = limit_of(mean);
        }
        __syncthreads();
        auto limit_at = [&](int64 i) -> float32 {
            if constexpr (MEANS > 1) return limits[(int32)source[i]];
            else return limit_of(mean_of((float32)source[i], inverse));
        };
        for (int64 first = (int64)blockIdx.x * blockDim.x * EACH; first < count; first += (int64)gridDim.x * blockDim.x * EACH) {
            const int64 begin = smaller(first + EACH * threadIdx.x, count);
            const int32 many = (int32)smaller(count - begin, (int64)EACH);
            int32 k = 0, draws = 0;
            for (; factor == 0 && k < many; ++k) out[begin + k] = convert<OUT>(0.0f);
            uint64 place = offset_of(context, begin) + 1, block = place >> 2;  // of the element's first higher word
            bool odd = place & 1, second = place & 2;
            float32 product = 1, limit = k < many ? limit_at(begin) : 0;
            while (k < many) {
                const float32 above = limit * (1 + MARGIN);
                #pragma unroll
                for (int32 turn = 0; turn < TURNS; ++turn) {
                    if (turn && !(product > above)) continue;
                    const Words words = words_of(counter, block++);
                    if (!second) product *= (float32)(odd ? words.word[1] : words.word[0]) * TWO_TO_MINUS_32, ++draws;
                    if (second || product > above) product *= (float32)(odd ? words.word[3] : words.word[2]) * TWO_TO_MINUS_32, ++draws;
                    second = false;
                }
                if (product > above) continue;
                if (limit > 1 || product > limit * (1 - MARGIN)) listed[atomicAdd(&exact, 1)] = (uint16)(EACH * threadIdx.x + k);
                else out[begin + k] = convert<OUT>((float32)(draws - 1) * factor);
                if (++k == many) break;
                place += ELEMENT_WORDS, block = place >> 2, odd = place & 1, second = place & 2;
                product = 1, draws = 0, limit = limit_at(begin + k);
            }
            __syncthreads();
            for (int32 number = threadIdx.x; number < exact; number += blockDim.x) {
                const int64 i = first + listed[number];
                Stream stream(counter, offset_of(context, i));
                float32 events;
                if constexpr (MEANS > 1) {
                    events = (float32)poisson(stream, means[(int32)source[i]], factorials);
                } else {
                    PoissonMean mean;
                    mean.set(mean_of((float32)source[i], inverse));
                    events = (float32)poisson(stream, mean, factorials);
                }
                out[i] = convert<OUT>(events * factor);
            }
            __syncthreads();
            if (threadIdx.x == 0) exact = 0;
            __syncthreads();
        }
    }
}

KERNEL_OF(4) salt_and_pepper(const int64 *context) {
    FOR_SAMPLES(sample, context[NOISE_SAMPLES]) {
        const Counter counter = counter_of(context, sample);
        const float32 chance = array<float32>(context, NOISE_PARAMETERS)[2 * sample], salt_chance = array<float32>(context, NOISE_PARAMETERS)[2 * sample + 1];
        const IN salt = array<IN>(context, NOISE_FLAVOURS)[2 * sample], pepper = array<IN>(context, NOISE_FLAVOURS)[2 * sample + 1];
        const int64 together = array<int64>(context, NOISE_TOGETHER)[sample], inner = array<int64>(context, NOISE_INNER)[sample];
        const int64 source = address(context, NOISE_INPUTS, sample), out = address(context, NOISE_OUTPUTS, sample);
        const int64 count = array<int64>(context, NOISE_COUNTS)[sample], pixels = count ? count / together : 0;
        // 0: the pixel stays, 1: it becomes salt, 2: pepper.
        auto change_of = [=](int64 pixel) -> int32 {
            const uint64 offset = offset_of(context, pixel);
            const float32 draw = (float32)picked(words_of(counter, offset >> 2), (uint32)offset & 3) * TWO_TO_MINUS_32;
            return !(draw < chance) ? 0 : draw < salt_chance ? 1 : 2;
        };
        if (together == 1) {
            map_numbered<1, IN, OUT>(source, out, pixels, [=](int64 pixel, const IN *in, OUT *made) {
                const int32 change = change_of(pixel);
                *made = (OUT)(change == 0 ? *in : change == 1 ? salt : pepper);
            });
        } else if (together == 3 && inner == 1) {
            map_numbered<3, IN, OUT>(source, out, pixels, [=](int64 pixel, const IN *in, OUT *made) {
                const int32 change = change_of(pixel);
                #pragma unroll
                for (int32 c = 0; c < 3; ++c) made[c] = (OUT)(change == 0 ? in[c] : change == 1 ? salt : pepper);
            });
        } else {
            FOR_ITEMS(pixel, pixels) {
                const int32 change = change_of(pixel);
                int64 outer = pixel;
                const int64 within = take(outer, inner), first = outer * inner * together + within;
                for (int64 c = 0; c < together; ++c) {
                    const int64 element = first + c * inner;
                    at<OUT>(out)[element] = (OUT)(change == 0 ? at<const IN>(source)[element] : change == 1 ? salt : pepper);
                }
            }
        }
    }
}
