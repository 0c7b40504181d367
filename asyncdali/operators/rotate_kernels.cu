// rotate and warp_affine: inverse affine warp, nearest or linear. The table is that of rotate_kernels.py, then 7 samples.
// Macros: IN, OUT element types; VOLUME; CHANNELS (all samples have that many; 0: they differ).
#include "kernel.cuh"

// Element offset of a pixel in its plane, clamped to it; -1 outside if not `clamp`.
DEVICE int64 offset_of(int64 x, int64 y, int64 height, int64 width, int64 channels, bool clamp) {
    if (clamp) {
        return (smaller(larger(y, (int64)0), height - 1) * width + smaller(larger(x, (int64)0), width - 1)) * channels;
    }
    return x < 0 || y < 0 || x >= width || y >= height ? -1 : (y * width + x) * channels;
}

DEVICE void pixel(const IN *source, float32 px, float32 py, const int64 *r, float32 fill, bool clamp, bool linear, OUT *to) {
    const int64 height = r[2], width = r[3], channels = CHANNELS ? CHANNELS : r[4];
    const float32 left = floorf(px), top = floorf(py);
    const int64 x = (int64)left, y = (int64)top;
    const int64 here = offset_of(x, y, height, width, channels, clamp);
    if (!linear) {
        for (int64 c = 0; c < channels; ++c) to[c] = convert<OUT>(here >= 0 ? (float32)source[here + c] : fill);
        return;
    }
    const int64 right = offset_of(x + 1, y, height, width, channels, clamp);
    const int64 below = offset_of(x, y + 1, height, width, channels, clamp);
    const int64 across = offset_of(x + 1, y + 1, height, width, channels, clamp);
    const float32 fx = px - left, fy = py - top;
    for (int64 c = 0; c < channels; ++c) {
        float32 a = here >= 0 ? (float32)source[here + c] : fill, b = right >= 0 ? (float32)source[right + c] : fill;
        const float32 above = fmaf(b - a, fx, a);
        a = below >= 0 ? (float32)source[below + c] : fill;
        b = across >= 0 ? (float32)source[across + c] : fill;
        to[c] = convert<OUT>(fmaf(fmaf(b - a, fx, a) - above, fy, above));
    }
}

DEVICE void voxel(const IN *source, float32 px, float32 py, float32 pz, const int64 *r, float32 fill, bool clamp, bool linear, OUT *to) {
    const int64 depth = r[1], height = r[2], width = r[3], channels = r[4], plane = height * width * channels;
    const int64 x = (int64)floorf(px), y = (int64)floorf(py), z = (int64)floorf(pz);
    const float32 fx = px - (float32)x, fy = py - (float32)y, fz = pz - (float32)z;
    for (int64 c = 0; c < channels; ++c) {
        float32 total = 0;
        for (int k = 0; k < (linear ? 8 : 1); ++k) {
            const int64 place = offset_of(x + (k & 1), y + (k >> 1 & 1), height, width, channels, clamp);
            int64 level = z + (k >> 2);
            if (clamp) level = smaller(larger(level, (int64)0), depth - 1);
            float32 value = place >= 0 && level >= 0 && level < depth ? (float32)source[level * plane + place + c] : fill;
            if (linear) value *= (k & 1 ? fx : 1 - fx) * (k & 2 ? fy : 1 - fy) * (k & 4 ? fz : 1 - fz);
            total += value;
        }
        to[c] = convert<OUT>(total);
    }
}

KERNEL rotate(const int64 *context) {
    const float32 fill = *array<float32>(context, 4);
    const bool linear = context[6] != 0;
    FOR_SAMPLES(sample, context[7]) {
        const int64 *r = array<int64>(context, 2) + 10 * sample;
        const int64 channels = r[4], out_width = r[7], out_height = r[6], out_depth = r[5];
        const int64 plane = r[2] * r[3] * channels;
        const bool clamp = context[5] != 0 && plane != 0 && (!VOLUME || r[1] != 0);
        const float64 shift = linear ? 0.5 : 0.0;
        const IN *source = at<const IN>(address(context, 0, sample));
        OUT *out = at<OUT>(address(context, 1, sample));
#if VOLUME
        FOR_ITEMS(i, r[0] * out_depth * out_height * out_width) {
            int64 rest = i;
            const int64 x = take(rest, out_width), y = take(rest, out_height), z = take(rest, out_depth), frame = rest;
            const float64 *m = array<float64>(context, 3) + 12 * (r[8] + frame * r[9]);
            const float64 u = x + 0.5, v = y + 0.5, w = z + 0.5;
            const float32 px = (float32)(m[0] * u + m[1] * v + m[2] * w + m[3] - shift);
            const float32 py = (float32)(m[4] * u + m[5] * v + m[6] * w + m[7] - shift);
            const float32 pz = (float32)(m[8] * u + m[9] * v + m[10] * w + m[11] - shift);
            voxel(source + frame * r[1] * plane, px, py, pz, r, fill, clamp, linear, out + i * channels);
        }
#else
        // Frames and depth are planes; rows of the output begin in float64, positions in a row are float32, as in the compiled step.
        FOR_ITEMS(i, r[0] * r[1] * out_height * out_width) {
            int64 rest = i;
            const int64 x = take(rest, out_width), y = take(rest, out_height), frame = rest;
            const float64 *m = array<float64>(context, 3) + 12 * (r[8] + frame * r[9]);
            const float64 row_x = m[0] * 0.5 + m[1] * (y + 0.5) + m[3] - shift, row_y = m[4] * 0.5 + m[5] * (y + 0.5) + m[7] - shift;
            const float32 px = fmaf((float32)m[0], (float32)x, (float32)row_x), py = fmaf((float32)m[4], (float32)x, (float32)row_y);
            pixel(source + frame * plane, px, py, r, fill, clamp, linear, out + i * channels);
        }
#endif
    }
}
