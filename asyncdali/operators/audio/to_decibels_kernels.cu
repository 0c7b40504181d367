// to_decibels. Macros: IN, OUT element types.
#include "kernel.cuh"
#include "to_decibels_tables.py"

// The largest element of each part of a sample, at least 0.
KERNEL peaks(const int64 *context) {
    __shared__ float32 largest[256];
    const int64 parts = context[DECIBELS_PARTS];
    FOR_SAMPLES(sample, context[DECIBELS_SAMPLES]) {
        const float32 *source = at<const float32>(address(context, DECIBELS_INPUTS, sample));
        const int64 count = array<int64>(context, DECIBELS_COUNTS)[sample];
        for (int64 part = blockIdx.x; part < parts; part += gridDim.x) {
            float32 found = 0;
            for (int64 i = part * blockDim.x + threadIdx.x; i < count; i += parts * blockDim.x) found = larger(found, source[i]);
            largest[threadIdx.x] = found;
            __syncthreads();
            for (int32 half = blockDim.x / 2; half > 0; half /= 2) {
                if ((int32)threadIdx.x < half) largest[threadIdx.x] = larger(largest[threadIdx.x], largest[threadIdx.x + half]);
                __syncthreads();
            }
            if (threadIdx.x == 0) at<float32>(context[DECIBELS_PEAKS])[sample * parts + part] = largest[0];
            __syncthreads();
        }
    }
}

KERNEL decibels(const int64 *context) {
    const int64 parts = context[DECIBELS_PARTS];
    const float64 *numbers = array<float64>(context, DECIBELS_NUMBERS);
    FOR_SAMPLES(sample, context[DECIBELS_SAMPLES]) {
        const float32 *source = at<const float32>(address(context, DECIBELS_INPUTS, sample));
        float32 *out = at<float32>(address(context, DECIBELS_OUTPUTS, sample));
        float64 reference = numbers[DECIBEL_NUMBERS_REFERENCE];
        if (reference == 0) {
            float32 found = 0;
            for (int64 part = 0; part < parts; ++part) found = larger(found, array<float32>(context, DECIBELS_PEAKS)[sample * parts + part]);
            reference = found == 0 ? 1.0 : (float64)found;
        }
        FOR_ITEMS(i, array<int64>(context, DECIBELS_COUNTS)[sample]) {
            out[i] = (float32)(numbers[DECIBEL_NUMBERS_MULTIPLIER] * log10(larger(numbers[DECIBEL_NUMBERS_LEAST], (float64)source[i] / reference)));
        }
    }
}
