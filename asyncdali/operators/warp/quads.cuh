// Pixels of three bytes, four at a time: kernels that copy or blend displaced pixels. Groups begin at words of the output, so a thread
// stores three words. Loads are words, too. With loads and stores of bytes the caches' bandwidth would limit such kernels.
#include "few_bytes.cuh"

#define QUAD 4

// Loop over the groups of a row of `width` pixels that is stored at `to`; `lanes` threads share the row. `x` is the first pixel of a group.
// The first group may begin before the row, the last one may end behind it.
#define FOR_QUADS(x, to, width, lanes)                                                                             \
    for (int32 x = QUAD * (int32)(threadIdx.x & ((lanes) - 1)) - (int32)(-(to) & 3); x < (width); x += QUAD * (lanes))

// Whether places in a picture, and positions in it, fit into the numbers of this file.
DEVICE bool fits_quads(int64 height, int64 width) { return larger(height, width) < 1 << 22 && height * width < 1 << 29; }

// Byte k as a float32. The byte becomes the lowest bits of 2**23, as in real() of a byte.
DEVICE float32 byte_of(const SixBytes &bytes, int32 k) {
    return __uint_as_float(__byte_perm(k < 4 ? bytes.low : bytes.high, 0x4b000000u, 0x7440u | (k & 3))) - 8388608.0f;
}

// The integer part of a position between -2**22 and 2**22, and the rest. Adding 1.5 * 2**23, rounded down, leaves the integer in the low
// bits. Any other position gives an integer outside this range.
DEVICE int32 floor_of(float32 position, float32 &rest) {
    const float32 sum = __fadd_rd(position, 12582912.0f);
    rest = position - (sum - 12582912.0f);
    return (int32)__float_as_uint(sum) - 0x4b400000;
}
// The nearest integer of such a position; ties go to the even integer.
DEVICE int32 nearest_of(float32 position) { return (int32)__float_as_uint(position + 12582912.0f) - 0x4b400000; }
// Whether a result of these functions is the integer of its position.
DEVICE bool is_exact(int32 whole) { return (uint32)(whole + (1 << 22)) < 1u << 23; }

// The lowest bytes of four numbers; `packed_halves`: each number is shifted right by one bit.
DEVICE uint32 packed(uint32 a, uint32 b, uint32 c, uint32 d) { return __byte_perm(__byte_perm(a, b, 0x0040), __byte_perm(c, d, 0x0040), 0x5410); }
DEVICE uint32 packed_halves(uint32 a, uint32 b, uint32 c, uint32 d) {
    return __byte_perm(__byte_perm(a, b, 0x5410) >> 1, __byte_perm(c, d, 0x5410) >> 1, 0x6420);
}

// Four pixels, each in the low bytes of a number, as three words.
DEVICE void joined(const uint32 *pixel, uint32 *word) {
    word[0] = __byte_perm(pixel[0], pixel[1], 0x4210);
    word[1] = __byte_perm(pixel[1], pixel[2], 0x5421);
    word[2] = __byte_perm(pixel[2], pixel[3], 0x6542);
}

// Four linear blends. Pixel j is between the four pixels whose first one is `place[j]` bytes behind `source`; a row has `pitch` bytes.
// AWAY: ties are rounded away from 0, otherwise to the even number.
template <bool AWAY> DEVICE void blend(int64 source, int32 pitch, const int32 *place, const float32 *fx, const float32 *fy, uint32 *word) {
    uint32 sum[3 * QUAD];
    #pragma unroll
    for (int32 pair = 0; pair < QUAD; pair += 2) {
        SixBytes high[2], low[2];
        #pragma unroll
        for (int32 k = 0; k < 2; ++k) high[k] = six_bytes(source + place[pair + k]), low[k] = six_bytes(source + place[pair + k] + pitch);
        #pragma unroll
        for (int32 k = 0; k < 2; ++k) {
            const int32 j = pair + k;
            #pragma unroll
            for (int32 c = 0; c < 3; ++c) {
                const float32 one = byte_of(high[k], c), other = byte_of(low[k], c);
                const float32 over = fmaf(byte_of(high[k], c + 3) - one, fx[j], one), under = fmaf(byte_of(low[k], c + 3) - other, fx[j], other);
                const float32 value = fmaf(under - over, fy[j], over);
                sum[3 * j + c] = __float_as_uint(AWAY ? __fadd_rz(value, 4194304.5f) : value + 8388608.0f);
            }
        }
    }
    #pragma unroll
    for (int32 k = 0; k < 3; ++k) {
        const uint32 *s = sum + 4 * k;
        word[k] = AWAY ? packed_halves(s[0], s[1], s[2], s[3]) : packed(s[0], s[1], s[2], s[3]);
    }
}

DEVICE void store_quad(int64 to, const uint32 *word) {
    #pragma unroll
    for (int32 k = 0; k < 3; ++k) at<uint32>(to)[k] = word[k];
}
