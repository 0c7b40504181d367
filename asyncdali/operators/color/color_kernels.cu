// Colour operators: x * factor + addend, and a 3 x 3 matrix with an offset. The table is that of color_kernels.py, then 4 samples.
// Macros: IN, OUT element types.
#include "lines.cuh"

KERNEL linear(const int64 *context) {
    FOR_SAMPLES(sample, context[4]) {
        const float32 multiplier = array<float32>(context, 3)[2 * sample], addend = array<float32>(context, 3)[2 * sample + 1];
        map_all<1, IN, OUT>(address(context, 0, sample), address(context, 1, sample), array<int64>(context, 2)[sample], [=](const IN *in, OUT *out) {
            *out = convert<OUT>(real(value_of(*in)) * multiplier + addend);
        });
    }
}

KERNEL matrix(const int64 *context) {
    FOR_SAMPLES(sample, context[4]) {
        float32 m[10];
        #pragma unroll
        for (int32 k = 0; k < 10; ++k) m[k] = array<float32>(context, 3)[10 * sample + k];
        map_all<3, IN, OUT>(address(context, 0, sample), address(context, 1, sample), array<int64>(context, 2)[sample], [=](const IN *in, OUT *out) {
            const float32 a = real(value_of(in[0])), b = real(value_of(in[1])), c = real(value_of(in[2]));
            #pragma unroll
            for (int32 k = 0; k < 3; ++k) out[k] = convert<OUT>(m[3 * k] * a + m[3 * k + 1] * b + m[3 * k + 2] * c + m[9]);
        });
    }
}
