// Resample sound. Macros: IN, OUT element types; FACTOR, OFFSET: map the range of IN to the range of OUT; PER_LOBE: rows of weights between
// two zeros of the sinc.
#include "kernel.cuh"
#include "../../codecs/audio/resampling_tables.py"

#define ROWS (PER_LOBE + 2)
#define MOST_TAPS 128  // of the highest quality

DEVICE float32 loaded(IN element) { return (float32)element * (float32)(FACTOR) + (float32)(OFFSET); }

KERNEL resample(const int64 *context) {
    // The threads of a warp read different rows. In shared memory the rows begin in different banks.
    __shared__ Pack<float32> weights[ROWS * (MOST_TAPS / PACK + 1)];
    const int32 lobes = (int32)context[RESAMPLE_LOBES], packs = (int32)context[RESAMPLE_TAPS] / PACK;
    for (int32 k = threadIdx.x; k < ROWS * packs; k += blockDim.x) weights[k + k / packs] = array<Pack<float32>>(context, RESAMPLE_WEIGHTS)[k];
    __syncthreads();
    FOR_SAMPLES(sample, context[RESAMPLE_SAMPLES]) {
        const IN *source = at<const IN>(address(context, RESAMPLE_INPUTS, sample));
        OUT *out = at<OUT>(address(context, RESAMPLE_OUTPUTS, sample));
        const int64 length = array<int64>(context, RESAMPLE_LENGTHS)[sample], channels = array<int64>(context, RESAMPLE_CHANNELS)[sample];
        const float64 ratio = array<float64>(context, RESAMPLE_RATIOS)[sample];
        FOR_ITEMS(i, array<int64>(context, RESAMPLE_COUNTS)[sample] * channels) {
            int64 time = i;
            const int64 channel = take(time, channels);
            const float64 position = (float64)time * ratio, whole = floor(position), place = PER_LOBE * (1 - (position - whole));
            const int32 row = (int32)place;
            const Pack<float32> *first = weights + row * (packs + 1), *second = first + packs + 1;
            const int64 begin = (int64)whole - lobes + 1;
            const IN *from = source + begin * channels + channel;
            float32 a = 0, b = 0;
            if (begin >= 0 && begin + PACK * packs <= length) {
                for (int32 k = 0; k < packs; ++k) {
                    const Pack<float32> one = first[k], other = second[k];
                    #pragma unroll
                    for (int32 j = 0; j < PACK; ++j, from += channels) {
                        const float32 value = loaded(*from);
                        a = fmaf(one.element[j], value, a);
                        b = fmaf(other.element[j], value, b);
                    }
                }
            } else {
                for (int32 k = 0; k < PACK * packs; ++k, from += channels) {
                    const float32 value = begin + k >= 0 && begin + k < length ? loaded(*from) : 0.0f;
                    a = fmaf(first[k / PACK].element[k % PACK], value, a);
                    b = fmaf(second[k / PACK].element[k % PACK], value, b);
                }
            }
            out[i] = convert<OUT>(a + (b - a) * (float32)(place - row));
        }
    }
}
