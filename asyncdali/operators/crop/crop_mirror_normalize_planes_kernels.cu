// crop_mirror_normalize from pixels of three bytes to planes, the most common case. A thread computes four neighbouring pixels: it reads
// whole words and writes four elements at a time.
// Macros: OUT element type; COLORED: a colour operator that this kernel applies while reading (0 none, 1 matrix, 2 factor and addend). With
// a colour operator, the table ELEMENTS (element_tables.py) follows the operator's own table.
#include "window.cuh"
#include "../color/color.cuh"

#ifndef COLORED
#define COLORED 0
#endif

#define CHANNELS 3
#define PIXELS PACK

// Four pixels of three bytes. Only aligned words that contain at least one of the bytes are read.
struct Pixels {
    uint32 word[CHANNELS];

    DEVICE_MEMBER void load(int64 from) {
        const int64 first = from & -4ll;
        const int32 bits = 8 * (int32)(from & 3);
        const uint32 a = word_at(first), b = word_at(first + 4), c = word_at(first + 8), d = bits ? word_at(first + 12) : 0;
        word[0] = __funnelshift_r(a, b, bits), word[1] = __funnelshift_r(b, c, bits), word[2] = __funnelshift_r(c, d, bits);
    }
    DEVICE_MEMBER uint8 byte(int32 k) const { return (uint8)(word[k / 4] >> 8 * (k % 4)); }
};

#if COLORED == 1
typedef ColorMatrix Color;
#elif COLORED == 2
typedef ColorFactor<CHANNELS> Color;
#else
struct Color {
    DEVICE_MEMBER void look_up(const int64 *, int64) {}
    DEVICE_MEMBER void operator()(const uint8 *in, uint8 *out) const {
        #pragma unroll
        for (int32 c = 0; c < CHANNELS; ++c) out[c] = in[c];
    }
};
#endif

KERNEL normalize_planes(const int64 *context) {
    const OUT *fills = array<OUT>(context, NORMALIZE_FILLS);
    const int64 *made_by = context + NORMALIZE_WORDS;
    FOR_SAMPLES(sample, context[NORMALIZE_SAMPLES]) {
        Window window;
        window.look_up(context, sample);
        const int64 *r = window.r;
        float32 mean[CHANNELS], factor[CHANNELS];
        #pragma unroll
        for (int32 c = 0; c < CHANNELS; ++c) mean[c] = window.mean[c], factor[c] = window.factor[c];
        Color color;
        color.look_up(made_by, sample);
        const auto normalized = [&](const uint8 *pixel, OUT *result) {
            uint8 colored[CHANNELS];
            color(pixel, colored);
            #pragma unroll
            for (int32 c = 0; c < CHANNELS; ++c) result[c] = convert<OUT>((real(colored[c]) - mean[c]) * factor[c]);
        };
        const int64 source = COLORED ? address(made_by, ELEMENTS_INPUTS, sample) : address(context, NORMALIZE_INPUTS, sample), out = address(context, NORMALIZE_OUTPUTS, sample);
        const int32 width = window.width, lanes = lanes_of((width + PIXELS - 1) / PIXELS * 2);
        const bool mirror = window.mirror != 0;
        FOR_ROWS(row, r[WINDOW_OUT_EXTENT_F] * r[WINDOW_OUT_EXTENT_D] * r[WINDOW_OUT_EXTENT_H], lanes) {
            int64 rest = row;
            const int64 y = take(rest, r[WINDOW_OUT_EXTENT_H]), z = take(rest, r[WINDOW_OUT_EXTENT_D]), f = rest;
            const int64 from_y = y + r[WINDOW_ANCHOR_H], from_z = z + r[WINDOW_ANCHOR_D], from_f = f + r[WINDOW_ANCHOR_F];
            const int64 to = out + window.out_row(y, z, f);
            const bool inside = from_y >= 0 && from_y < r[WINDOW_IN_EXTENT_H] && window.has_plane(from_z, from_f);
            const int64 line = source + from_f * r[WINDOW_IN_STRIDE_F] + from_z * r[WINDOW_IN_STRIDE_D] + from_y * r[WINDOW_IN_STRIDE_H];
            FOR_COLUMNS(four, (width + PIXELS - 1) / PIXELS, lanes) {
                const int32 x = PIXELS * four, last = smaller(x + PIXELS, width) - 1;
                // Columns of the input, in ascending order.
                const int32 low = (mirror ? width - 1 - last : x) + window.left, high = low + last - x;
                Pack<OUT> made[CHANNELS];
                if (inside && low >= 0 && high < window.in_width && high - low == PIXELS - 1) {
                    Pixels pixels;
                    pixels.load(line + CHANNELS * low);
                    OUT result[PIXELS][CHANNELS];
                    #pragma unroll
                    for (int32 k = 0; k < PIXELS; ++k) {
                        const uint8 pixel[CHANNELS] = {pixels.byte(CHANNELS * k), pixels.byte(CHANNELS * k + 1), pixels.byte(CHANNELS * k + 2)};
                        normalized(pixel, result[k]);
                    }
                    #pragma unroll
                    for (int32 c = 0; c < CHANNELS; ++c) {
                        #pragma unroll
                        for (int32 k = 0; k < PIXELS; ++k) made[c].element[k] = mirror ? result[PIXELS - 1 - k][c] : result[k][c];
                    }
                } else {
                    #pragma unroll
                    for (int32 k = 0; k < PIXELS; ++k) {  // constant bounds, because a pack indexed at run time moves to memory
                        const int32 from_x = mirror ? high - k : low + k;
                        const bool found = inside && x + k <= last && from_x >= 0 && from_x < window.in_width;
                        OUT result[CHANNELS];
                        if (found) normalized(at<const uint8>(line) + CHANNELS * from_x, result);
                        #pragma unroll
                        for (int32 c = 0; c < CHANNELS; ++c) made[c].element[k] = found ? result[c] : fills[c];
                    }
                }
                #pragma unroll
                for (int32 c = 0; c < CHANNELS; ++c) put(to + c * window.out_plane, x, width, made[c]);
                for (int32 c = CHANNELS; c < window.out_channels; ++c) {
                    for (int32 k = x; k <= last; ++k) at<OUT>(to + c * window.out_plane)[k] = fills[c];
                }
            }
        }
    }
}
