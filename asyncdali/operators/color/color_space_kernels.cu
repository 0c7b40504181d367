// color_space_conversion: `round(matrix @ (colour - before) + after)`. The table is that of color_space_kernels.py, then 5 samples.
// Macros: FROM, TO channels (1 or 3).
#include "kernel.cuh"

KERNEL conversion(const int64 *context) {
    const float32 *f = array<float32>(context, 3);
    const int64 first = context[4];
    FOR_SAMPLES(sample, context[5]) {
        const uint8 *source = at<const uint8>(address(context, 0, sample));
        uint8 *out = at<uint8>(address(context, 1, sample));
        FOR_ITEMS(i, array<int64>(context, 2)[sample]) {
            const float32 x = real(source[FROM * i + first]) - f[9];
            float32 y = 0, z = 0;
            if (FROM == 3) {
                y = real(source[3 * i + 1]) - f[10];
                z = real(source[3 * i + 2 - first]) - f[11];
            }
            #pragma unroll
            for (int k = 0; k < TO; ++k) out[TO * i + k] = convert<uint8>(f[3 * k] * x + f[3 * k + 1] * y + f[3 * k + 2] * z + f[12 + k]);
        }
    }
}
