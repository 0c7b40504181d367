// color_space_conversion: `round(matrix @ (colour - before) + after)`. The table is that of color_space_kernels.py, then 5 samples.
// Macros: FROM, TO channels (1 or 3).
#include "lines.cuh"

KERNEL conversion(const int64 *context) {
    float32 f[15];
    #pragma unroll
    for (int32 k = 0; k < 15; ++k) f[k] = array<float32>(context, 3)[k];
    const bool turned = context[4];  // the input's first channel is its last one
    FOR_SAMPLES(sample, context[5]) {
        map_pixels<FROM, TO>(address(context, 0, sample), address(context, 1, sample), array<int64>(context, 2)[sample], [=](const uint8 *in, uint8 *out) {
            const float32 x = real(turned ? in[FROM - 1] : in[0]) - f[9];
            float32 y = 0, z = 0;
            if (FROM == 3) {
                y = real(in[1 % FROM]) - f[10];
                z = real(turned ? in[0] : in[FROM - 1]) - f[11];
            }
            #pragma unroll
            for (int32 k = 0; k < TO; ++k) out[k] = convert<uint8>(f[3 * k] * x + f[3 * k + 1] * y + f[3 * k + 2] * z + f[12 + k]);
        });
    }
}
