// experimental.warp_perspective. The arithmetic is that of OpenCV's warpPerspective (version 5), so results equal those of the CPU.
// Macros: IN element type; INTERPOLATION: 0 nearest, 1 linear, 2 cubic.
#include "../filters/borders.cuh"
#include "quads.cuh"
#include "warp_perspective_tables.py"

#define STEPS 32  // linear interpolation of `coarse` rounds positions to 1/32 of a pixel
#define BLOCK_PIXELS 1024

// ----------------------------------------------------------------------------------------------------- matrices of the second input

// Invert a 3 x 3 matrix in place. A singular matrix becomes 0.
DEVICE void invert(float64 *m) {
    const float64 a = m[4] * m[8] - m[5] * m[7], b = m[3] * m[8] - m[5] * m[6], c = m[3] * m[7] - m[4] * m[6];
    const float64 determinant = m[0] * a - m[1] * b + m[2] * c;
    const float64 d = determinant != 0 ? 1.0 / determinant : 0.0;
    const float64 inverse[9] = {
        a * d, (m[2] * m[7] - m[1] * m[8]) * d, (m[1] * m[5] - m[2] * m[4]) * d,
        -b * d, (m[0] * m[8] - m[2] * m[6]) * d, (m[2] * m[3] - m[0] * m[5]) * d,
        c * d, (m[1] * m[6] - m[0] * m[7]) * d, (m[0] * m[4] - m[1] * m[3]) * d,
    };
    for (int k = 0; k < 9; ++k) m[k] = inverse[k];
}

KERNEL prepare_maps(const int64 *context) {
    FOR_SAMPLES(sample, context[PERSPECTIVE_SAMPLES]) {
        const int64 *r = array<int64>(context, PERSPECTIVE_RECORDS) + PERSPECTIVE_RECORD_WORDS * sample;
        const float32 *transforms = at<const float32>(address(context, PERSPECTIVE_TRANSFORMS, sample));
        FOR_ITEMS(frame, r[PERSPECTIVE_RECORD_FRAMES]) {
            float32 t[9];
            for (int k = 0; k < 9; ++k) t[k] = transforms[9 * frame * r[PERSPECTIVE_RECORD_TRANSFORM_STEP] + k];
            if (context[PERSPECTIVE_CORNER]) {
                for (int row = 0; row < 3; ++row) t[3 * row + 2] += t[3 * row] * 0.5f + t[3 * row + 1] * 0.5f;
                for (int column = 0; column < 3; ++column) {
                    t[column] -= 0.5f * t[6 + column];
                    t[3 + column] -= 0.5f * t[6 + column];
                }
            }
            float64 *map = at<float64>(context[PERSPECTIVE_MAPS]) + 9 * (r[PERSPECTIVE_RECORD_FIRST] + frame);
            for (int k = 0; k < 9; ++k) map[k] = t[k];
            if (context[PERSPECTIVE_INVERTED]) invert(map);
        }
    }
}

// ------------------------------------------------------------------------------------------------------------------------------ images

struct Image {
    const IN *pixels;
    const float32 *fill;
    int64 height, width, channels, border;
};

DEVICE IN tap(const Image &image, int64 y, int64 x, int64 c) {
    const int64 row = inside(y, image.height, image.border), column = inside(x, image.width, image.border);
    return row < 0 || column < 0 ? (IN)image.fill[c] : image.pixels[(row * image.width + column) * image.channels + c];
}

// Round to the nearest integer and saturate; ties go to the even integer.
DEVICE IN rounded(float32 value) {
    if constexpr (Kind<IN>::is_float) {
        return value;
    } else {
        const float32 whole = rintf(value);
        if (!(whole > (float32)lowest<IN>())) return lowest<IN>();
        return whole < (float32)highest<IN>() ? (IN)whole : highest<IN>();
    }
}

// Convert a float without a fraction to an integer. Positions that do not fit into int32 become -2**31, which is outside every image.
DEVICE int64 whole(float32 x) { return x >= -2147483648.0f && x < 2147483648.0f ? (int64)(int32)x : -2147483648ll; }
DEVICE int64 short_of(int64 x) { return smaller(larger(x, (int64)-32768), (int64)32767); }

// ------------------------------------------------- INT16, or two channels: positions in float64; linear interpolation rounds them to 1/32

DEVICE void coarse_position(const float64 *m, int64 y, int64 x, int64 rows, int64 columns, float64 scale, int64 &u, int64 &v) {
    const int64 height = smaller(rows, (int64)16), block = smaller(BLOCK_PIXELS / height, columns);
    const float64 left = (float64)(x / block * block), right = (float64)(x % block), down = (float64)y;
    float64 w = m[6] * left + m[7] * down + m[8] + m[6] * right;
    w = w != 0 ? scale / w : 0.0;
    const float64 across = (m[0] * left + m[1] * down + m[2] + m[0] * right) * w;
    const float64 along = (m[3] * left + m[4] * down + m[5] + m[3] * right) * w;
    u = (int64)rint(smaller(larger(across, -2147483648.0), 2147483647.0));
    v = (int64)rint(smaller(larger(along, -2147483648.0), 2147483647.0));
}

DEVICE void coarse(const Image &image, const float64 *m, int64 y, int64 x, int64 rows, int64 columns, IN *out) {
    int64 u, v;
    if (INTERPOLATION == 0) {
        coarse_position(m, y, x, rows, columns, 1.0, u, v);
        for (int64 c = 0; c < image.channels; ++c) out[c] = tap(image, short_of(v), short_of(u), c);
        return;
    }
    coarse_position(m, y, x, rows, columns, (float64)STEPS, u, v);
    const int64 column = short_of(u >> 5), row = short_of(v >> 5), across = u & (STEPS - 1), down = v & (STEPS - 1);
    for (int64 c = 0; c < image.channels; ++c) {
        const IN a = tap(image, row, column, c), b = tap(image, row, column + 1, c);
        const IN d = tap(image, row + 1, column, c), e = tap(image, row + 1, column + 1, c);
        if constexpr (Same<IN, uint8>::value) {
            const int32 upper = a * (int32)(STEPS - across) + b * (int32)across, lower = d * (int32)(STEPS - across) + e * (int32)across;
            out[c] = (IN)((upper * (int32)(STEPS - down) + lower * (int32)down + STEPS * STEPS / 2) >> 10);
        } else {
            const float32 right = (float32)across / STEPS, below = (float32)down / STEPS, left = 1.0f - right, above = 1.0f - below;
            out[c] = rounded(real(a) * (above * left) + real(b) * (above * right) + real(d) * (below * left) + real(e) * (below * right));
        }
    }
}

// ------------------------------------------------------------------------------------------------- other images: positions in float32

// A pixel between four neighbours that are inside of the image. CHANNELS 0: their number is known at run time only.
template <int CHANNELS> DEVICE void between(const Image &image, int64 row, int64 column, float32 across, float32 below, IN *out) {
    const int32 channels = CHANNELS ? CHANNELS : (int32)image.channels;
    const IN *above = image.pixels + (row * image.width + column) * channels, *under = above + image.width * channels;
#pragma unroll
    for (int32 c = 0; c < channels; ++c) {
        const float32 a = real(above[c]), d = real(under[c]);
        const float32 upper = fmaf(across, real(above[channels + c]) - a, a), lower = fmaf(across, real(under[channels + c]) - d, d);
        out[c] = rounded(fmaf(below, lower - upper, upper));
    }
}

// `f` is the matrix of the frame.
DEVICE void fine(const Image &image, const float32 *f, int64 y, int64 x, IN *out) {
    const float32 right = (float32)x, down = (float32)y;
    const float32 w = fmaf(f[6], right, f[7] * down + f[8]);
    const float32 u = fmaf(f[0], right, f[1] * down + f[2]) / w, v = fmaf(f[3], right, f[4] * down + f[5]) / w;
    if (INTERPOLATION == 0) {
        const int64 row = whole(rintf(v)), column = whole(rintf(u));
        for (int64 c = 0; c < image.channels; ++c) out[c] = tap(image, row, column, c);
        return;
    }
    const float32 left = floorf(u), above = floorf(v), across = u - left, below = v - above;
    const int64 column = whole(left), row = whole(above);
    if (column >= 0 && column + 1 < image.width && row >= 0 && row + 1 < image.height) {
        if (image.channels == 3) between<3>(image, row, column, across, below, out);
        else if (image.channels == 1) between<1>(image, row, column, across, below, out);
        else between<0>(image, row, column, across, below, out);
        return;
    }
    const bool outside = column < -1 || column >= image.width || row < -1 || row >= image.height;
    for (int64 c = 0; c < image.channels; ++c) {
        if (outside && image.border == 4) {
            out[c] = (IN)image.fill[c];
            continue;
        }
        const float32 a = real(tap(image, row, column, c)), d = real(tap(image, row + 1, column, c));
        const float32 upper = fmaf(across, real(tap(image, row, column + 1, c)) - a, a);
        const float32 lower = fmaf(across, real(tap(image, row + 1, column + 1, c)) - d, d);
        out[c] = rounded(fmaf(below, lower - upper, upper));
    }
}

// ------------------------------------------------------------------------------------------------------------------------------- cubic

DEVICE void cubic_weights(float32 x, float32 *w) {
    const float32 square = x * x, rest = 1.0f - x;
    w[0] = -0.75f * (x * (rest * rest));
    w[3] = -0.75f * (square * rest);
    w[1] = fmaf(square, fmaf(1.25f, x, -2.25f), 1.0f);
    w[2] = 1.0f - w[0] - w[1] - w[3];
}

// Clamp a position to -extent..2 * extent, so that it fits into an integer. NaN becomes -extent.
DEVICE float32 near(float32 x, int64 extent) {
    const float32 large = (float32)larger(extent, (int64)16);
    return !(x > -large) ? -large : smaller(x, 2.0f * large);
}

DEVICE void cubic(const Image &image, const float32 *f, int64 y, int64 x, IN *out) {
    const float32 down = (float32)y;
    const float64 w = 1.0 / ((down * f[7] + f[8]) + f[6] * (float64)x);
    const float32 u = near((float32)(((down * f[1] + f[2]) + f[0] * (float64)x) * w), image.width);
    const float32 v = near((float32)(((down * f[4] + f[5]) + f[3] * (float64)x) * w), image.height);
    const float32 left = floorf(u), above = floorf(v);
    const int64 column = (int64)left - 1, row = (int64)above - 1;
    float32 across[4], below[4];
    cubic_weights(u - left, across);
    cubic_weights(v - above, below);
    const bool outside = column < -4 || column >= image.width || row < -4 || row >= image.height;
    for (int64 c = 0; c < image.channels; ++c) {
        if (outside && image.border == 4) {
            out[c] = (IN)image.fill[c];
            continue;
        }
        float32 total = 0.0f;
        for (int k = 0; k < 4; ++k) {
            float32 line = real(tap(image, row + k, column, c)) * across[0];
            for (int j = 1; j < 4; ++j) line = fmaf(real(tap(image, row + k, column + j, c)), across[j], line);
            total = fmaf(line, below[k], total);
        }
        out[c] = rounded(total);
    }
}

// A row of the output.
struct Line {
    Image image;
    IN *out;
    const float64 *map;
    int64 y;
    float32 f[9];

    DEVICE_MEMBER void begin(const int64 *context, int64 sample, int64 line) {
        const int64 *r = array<int64>(context, PERSPECTIVE_RECORDS) + PERSPECTIVE_RECORD_WORDS * sample;
        const int64 height = r[PERSPECTIVE_RECORD_HEIGHT], width = r[PERSPECTIVE_RECORD_WIDTH], channels = r[PERSPECTIVE_RECORD_CHANNELS];
        int64 rest = line;
        y = take(rest, r[PERSPECTIVE_RECORD_ROWS]);
        const int64 plane = take(rest, r[PERSPECTIVE_RECORD_PLANES]), frame = rest;
        const int64 before = frame * r[PERSPECTIVE_RECORD_STEP] * r[PERSPECTIVE_RECORD_PLANES] + plane;
        const IN *pixels = at<const IN>(address(context, PERSPECTIVE_INPUTS, sample)) + before * height * width * channels;
        image = {pixels, array<float32>(context, PERSPECTIVE_FILLS) + 4 * sample, height, width, channels, context[PERSPECTIVE_BORDER]};
        out = at<IN>(address(context, PERSPECTIVE_OUTPUTS, sample)) + line * r[PERSPECTIVE_RECORD_COLUMNS] * channels;
        map = array<float64>(context, PERSPECTIVE_MAPS) + 9 * (r[PERSPECTIVE_RECORD_FIRST] + frame);
        for (int k = 0; k < 9; ++k) f[k] = (float32)map[k];
    }
};

DEVICE int64 lines_of(const int64 *r) { return r[PERSPECTIVE_RECORD_FRAMES] * r[PERSPECTIVE_RECORD_PLANES] * r[PERSPECTIVE_RECORD_ROWS]; }

KERNEL warp_perspective(const int64 *context) {
    FOR_SAMPLES(sample, context[PERSPECTIVE_SAMPLES]) {
        const int64 *r = array<int64>(context, PERSPECTIVE_RECORDS) + PERSPECTIVE_RECORD_WORDS * sample;
        const int64 rows = r[PERSPECTIVE_RECORD_ROWS], columns = r[PERSPECTIVE_RECORD_COLUMNS], channels = r[PERSPECTIVE_RECORD_CHANNELS];
        const bool by_steps = INTERPOLATION != 2 && (Same<IN, int16>::value || channels == 2);
        const int32 lanes = lanes_of(columns);
        FOR_ROWS(line, lines_of(r), lanes) {
            Line row;
            row.begin(context, sample, line);
            FOR_COLUMNS(x, columns, lanes) {
                IN *to = row.out + x * channels;
                if (INTERPOLATION == 2) cubic(row.image, row.f, row.y, x, to);
                else if (by_steps) coarse(row.image, row.map, row.y, x, rows, columns, to);
                else fine(row.image, row.f, row.y, x, to);
            }
        }
    }
}

// ------------------------------------------------------------ images of three bytes per pixel, four pixels at a time; nearest or linear

APART void fine_pixels(const Line *row, int32 begin, int32 end) {
    for (int32 x = begin; x < end; ++x) fine(row->image, row->f, row->y, x, row->out + x * row->image.channels);
}

// Four pixels of a row, from pixel `x` on, as words. False: some of them are at the border.
DEVICE bool quad(const Line &row, int32 x, uint32 *word) {
    const int32 height = (int32)row.image.height, width = (int32)row.image.width, more = INTERPOLATION == 1;
    const float32 *f = row.f, down = (float32)row.y, base = f[7] * down + f[8], base_u = f[1] * down + f[2], base_v = f[4] * down + f[5];
    int32 place[QUAD], found = 0, outside = 0;
    float32 fx[QUAD], fy[QUAD];
    #pragma unroll
    for (int32 j = 0; j < QUAD; ++j) {
        const float32 right = (float32)(x + j), w = fmaf(f[6], right, base);
        const float32 u = fmaf(f[0], right, base_u) / w, v = fmaf(f[3], right, base_v) / w;
        const int32 column = more ? floor_of(u, fx[j]) : nearest_of(u), line = more ? floor_of(v, fy[j]) : nearest_of(v);
        if ((uint32)column < (uint32)(width - more) && (uint32)line < (uint32)(height - more)) found |= 1 << j;
        if (column < -more || column >= width || line < -more || line >= height) outside |= 1 << j;
        place[j] = (line * width + column) * 3;
    }
    uint32 one[QUAD];
    if (found == 15) {
        if (more) {
            blend<false>((int64)row.image.pixels, 3 * width, place, fx, fy, word);
            return true;
        }
        #pragma unroll
        for (int32 j = 0; j < QUAD; ++j) one[j] = three_bytes((int64)row.image.pixels + place[j]);
    } else if (outside == 15 && row.image.border == 4) {
        const float32 *fill = row.image.fill;
        one[0] = one[1] = one[2] = one[3] = (uint32)(uint8)fill[0] | (uint32)(uint8)fill[1] << 8 | (uint32)(uint8)fill[2] << 16;
    } else {
        return false;
    }
    joined(one, word);
    return true;
}

KERNEL_OF(4) warp_perspective_quads(const int64 *context) {
    __shared__ Line rows[MOST_ROWS];  // in shared memory, so that the loops have registers left
    FOR_SAMPLES(sample, context[PERSPECTIVE_SAMPLES]) {
        const int64 *r = array<int64>(context, PERSPECTIVE_RECORDS) + PERSPECTIVE_RECORD_WORDS * sample;
        const int32 width = (int32)r[PERSPECTIVE_RECORD_COLUMNS], lanes = lanes_of(width / QUAD + 1);
        FOR_ROWS_TOGETHER(first, lines_of(r), lanes) {
            Line &row = rows[threadIdx.x / lanes];
            const int64 line = first + threadIdx.x / lanes;
            __syncthreads();
            if (threadIdx.x % lanes == 0 && line < lines_of(r)) row.begin(context, sample, line);
            __syncthreads();
            if (line >= lines_of(r)) continue;
            FOR_QUADS(x, (int64)row.out, width, lanes) {
                uint32 word[3];
                if (x >= 0 && x + QUAD <= width && quad(row, x, word)) store_quad((int64)row.out + 3 * x, word);
                else fine_pixels(&row, larger(x, 0), smaller(x + QUAD, width));
            }
        }
    }
}
