// Colour operators: x * factor + addend, and a 3 x 3 matrix with an offset.
// Macros: IN, OUT element types.
#define RESIDENT 3  // Without a limit the compiler takes 124 registers, and two blocks run at a time.
#include "lines.cuh"
#include "color_tables.py"

KERNEL linear(const int64 *context) {
    FOR_SAMPLES(sample, context[COLOR_SAMPLES]) {
        const float32 *f = array<float32>(context, COLOR_FACTORS) + LINEAR_FACTORS_WORDS * sample;
        const float32 multiplier = f[LINEAR_FACTORS_MULTIPLIER], addend = f[LINEAR_FACTORS_ADDEND];
        const int64 source = address(context, COLOR_INPUTS, sample), target = address(context, COLOR_OUTPUTS, sample);
        map_all<1, IN, OUT>(source, target, array<int64>(context, COLOR_COUNTS)[sample], [=](const IN *in, OUT *out) {
            *out = convert<OUT>(real(value_of(*in)) * multiplier + addend);
        });
    }
}

KERNEL matrix(const int64 *context) {
    FOR_SAMPLES(sample, context[COLOR_SAMPLES]) {
        float32 f[MATRIX_FACTORS_WORDS];
        #pragma unroll
        for (int32 k = 0; k < MATRIX_FACTORS_WORDS; ++k) f[k] = array<float32>(context, COLOR_FACTORS)[MATRIX_FACTORS_WORDS * sample + k];
        const int64 source = address(context, COLOR_INPUTS, sample), target = address(context, COLOR_OUTPUTS, sample);
        map_all<3, IN, OUT>(source, target, array<int64>(context, COLOR_COUNTS)[sample], [=](const IN *in, OUT *out) {
            const float32 a = real(value_of(in[0])), b = real(value_of(in[1])), c = real(value_of(in[2]));
            #pragma unroll
            for (int32 k = 0; k < 3; ++k) {
                const int32 row = MATRIX_FACTORS_M_0 + 3 * k;
                out[k] = convert<OUT>(f[row] * a + f[row + 1] * b + f[row + 2] * c + f[MATRIX_FACTORS_OFFSET]);
            }
        });
    }
}
