// to_decibels and preemphasis_filter.
// Macros: IN, OUT element types (of preemphasis).
#include "kernel.cuh"

// The largest element of each part of a sample, at least 0. Table: 0 input addresses, 1 output addresses, 2 elements int64[samples],
// 3 float64[3] (multiplier, reference or 0: the largest element, smallest ratio), 4 samples, 5 parts, 6 largest elements [samples, parts].
KERNEL peaks(const int64 *context) {
    __shared__ float32 largest[256];
    const int64 parts = context[5];
    FOR_SAMPLES(sample, context[4]) {
        const float32 *source = at<const float32>(address(context, 0, sample));
        const int64 count = array<int64>(context, 2)[sample];
        for (int64 part = blockIdx.x; part < parts; part += gridDim.x) {
            float32 found = 0;
            for (int64 i = part * blockDim.x + threadIdx.x; i < count; i += parts * blockDim.x) found = larger(found, source[i]);
            largest[threadIdx.x] = found;
            __syncthreads();
            for (int32 half = blockDim.x / 2; half > 0; half /= 2) {
                if ((int32)threadIdx.x < half) largest[threadIdx.x] = larger(largest[threadIdx.x], largest[threadIdx.x + half]);
                __syncthreads();
            }
            if (threadIdx.x == 0) at<float32>(context[6])[sample * parts + part] = largest[0];
            __syncthreads();
        }
    }
}

KERNEL decibels(const int64 *context) {
    const int64 parts = context[5];
    const float64 *numbers = array<float64>(context, 3);
    FOR_SAMPLES(sample, context[4]) {
        const float32 *source = at<const float32>(address(context, 0, sample));
        float32 *out = at<float32>(address(context, 1, sample));
        float64 reference = numbers[1];
        if (reference == 0) {
            float32 found = 0;
            for (int64 part = 0; part < parts; ++part) found = larger(found, array<float32>(context, 6)[sample * parts + part]);
            reference = found == 0 ? 1.0 : (float64)found;
        }
        FOR_ITEMS(i, array<int64>(context, 2)[sample]) {
            out[i] = (float32)(numbers[0] * log10(larger(numbers[2], (float64)source[i] / reference)));
        }
    }
}

// The table is that of preemphasis_step, then 5 samples.
KERNEL preemphasis(const int64 *context) {
    const int64 border = context[4];
    FOR_SAMPLES(sample, context[5]) {
        const IN *source = at<const IN>(address(context, 0, sample));
        OUT *out = at<OUT>(address(context, 1, sample));
        const float32 coefficient = array<float32>(context, 3)[sample];
        const int64 count = array<int64>(context, 2)[sample];
        FOR_ITEMS(i, count) {
            float32 before = 0;
            if (i) before = (float32)source[i - 1];
            else if (border == 1 || (border == 2 && count == 1)) before = (float32)source[0];
            else if (border == 2) before = (float32)source[1];
            out[i] = convert<OUT>((float32)source[i] - coefficient * before);
        }
    }
}
