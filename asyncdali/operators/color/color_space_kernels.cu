// color_space_conversion: `round(matrix @ (colour - before) + after)`.
// Macros: FROM, TO: number of channels of input and output, 1 or 3.
#define RESIDENT 3  // Without a limit the compiler takes 102 registers, and a multiprocessor runs two blocks at a time.
#include "lines.cuh"
#include "color_tables.py"

KERNEL conversion(const int64 *context) {
    float32 f[CONVERSION_RECORD_WORDS];
    #pragma unroll
    for (int32 k = 0; k < CONVERSION_RECORD_WORDS; ++k) f[k] = array<float32>(context, CONVERSION_FACTORS)[k];
    const bool turned = context[CONVERSION_FIRST];  // the input is BGR
    FOR_SAMPLES(sample, context[CONVERSION_SAMPLES]) {
        const int64 source = address(context, CONVERSION_INPUTS, sample), target = address(context, CONVERSION_OUTPUTS, sample);
        map_pixels<FROM, TO>(source, target, array<int64>(context, CONVERSION_PIXELS)[sample], [=](const uint8 *in, uint8 *out) {
            const float32 x = real(turned ? in[FROM - 1] : in[0]) - f[CONVERSION_RECORD_BEFORE_0];
            float32 y = 0, z = 0;
            if (FROM == 3) {
                y = real(in[1 % FROM]) - f[CONVERSION_RECORD_BEFORE_1];
                z = real(turned ? in[0] : in[FROM - 1]) - f[CONVERSION_RECORD_BEFORE_2];
            }
            #pragma unroll
            for (int32 k = 0; k < TO; ++k) {
                const int32 row = CONVERSION_RECORD_M_0 + 3 * k;
                out[k] = convert<uint8>(f[row] * x + f[row + 1] * y + f[row + 2] * z + f[CONVERSION_RECORD_AFTER_0 + k]);
            }
        });
    }
}
