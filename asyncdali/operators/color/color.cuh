// The functions of the colour operators, for their kernels and for kernels that compute colours while reading. The table is ELEMENTS.
#include "kernel.cuh"
#include "color_tables.py"
#include "../../compiled/element_tables.py"

// Multiply a pixel by a 3 x 3 matrix and add an offset.
struct ColorMatrix {
    float32 f[MATRIX_FACTORS_WORDS];

    DEVICE_MEMBER void look_up(const int64 *context, int64 sample) {
        #pragma unroll
        for (int32 k = 0; k < MATRIX_FACTORS_WORDS; ++k) f[k] = array<float32>(context, ELEMENTS_NUMBERS)[MATRIX_FACTORS_WORDS * sample + k];
    }
    template <class In, class Out> DEVICE_MEMBER void operator()(const In *in, Out *out) const {
        const float32 a = real(value_of(in[0])), b = real(value_of(in[1])), c = real(value_of(in[2]));
        #pragma unroll
        for (int32 k = 0; k < 3; ++k) {
            const int32 row = MATRIX_FACTORS_M_0 + 3 * k;
            out[k] = convert<Out>(f[row] * a + f[row + 1] * b + f[row + 2] * c + f[MATRIX_FACTORS_OFFSET]);
        }
    }
};

// Multiply COUNT elements by a factor and add an addend.
template <int32 COUNT> struct ColorFactor {
    float32 multiplier, addend;

    DEVICE_MEMBER void look_up(const int64 *context, int64 sample) {
        const float32 *f = array<float32>(context, ELEMENTS_NUMBERS) + 2 * sample;
        multiplier = f[0], addend = f[1];
    }
    template <class In, class Out> DEVICE_MEMBER void operator()(const In *in, Out *out) const {
        #pragma unroll
        for (int32 k = 0; k < COUNT; ++k) out[k] = convert<Out>(real(value_of(in[k])) * multiplier + addend);
    }
};
