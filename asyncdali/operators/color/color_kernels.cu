// Colour operators: x * factor + addend, and a 3 x 3 matrix with an offset. The table is that of color_kernels.py, then 4 samples.
// Macros: IN, OUT element types.
#include "kernel.cuh"

KERNEL linear(const int64 *context) {
    FOR_SAMPLES(sample, context[4]) {
        const float32 multiplier = array<float32>(context, 3)[2 * sample], addend = array<float32>(context, 3)[2 * sample + 1];
        const IN *source = at<const IN>(address(context, 0, sample));
        OUT *out = at<OUT>(address(context, 1, sample));
        FOR_ITEMS(i, array<int64>(context, 2)[sample]) out[i] = convert<OUT>((float32)value_of(source[i]) * multiplier + addend);
    }
}

KERNEL matrix(const int64 *context) {
    FOR_SAMPLES(sample, context[4]) {
        const float32 *m = array<float32>(context, 3) + 10 * sample;
        const IN *source = at<const IN>(address(context, 0, sample));
        OUT *out = at<OUT>(address(context, 1, sample));
        FOR_ITEMS(i, array<int64>(context, 2)[sample]) {
            const float32 a = value_of(source[3 * i]), b = value_of(source[3 * i + 1]), c = value_of(source[3 * i + 2]);
            for (int k = 0; k < 3; ++k) out[3 * i + k] = convert<OUT>(m[3 * k] * a + m[3 * k + 1] * b + m[3 * k + 2] * c + m[9]);
        }
    }
}
