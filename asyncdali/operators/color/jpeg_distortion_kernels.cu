// jpeg_compression_distortion: the effect of JPEG encoding (4:2:0) and decoding on an image. The arithmetic is libjpeg's: colours in 16-bit
// fixed point, the accurate integer transforms ("islow"; Loeffler, Ligtenberg and Moschytz, ICASSP 1989), and chroma upsampling with the
// triangle filter. Entropy coding is lossless and therefore omitted.
#include "kernel.cuh"
#include "jpeg_distortion_tables.py"

#define UNIT 16    // pixels of a unit (MCU) along each axis
#define SIDE 8     // samples of a block along each axis
#define BLOCKS 6   // blocks of a unit: four of luma, Cb, Cr
#define THREADS 64 // threads that share a unit
#define UNITS 4    // units that a block of threads computes at a time
#define UNIT_BYTES (UNIT * UNIT + 2 * SIDE * SIDE)

DEVICE uint8 clamped(int32 value) { return (uint8)smaller(larger(value, 0), 255); }
DEVICE int32 descaled(int32 value, int32 bits) { return (value + (1 << (bits - 1))) >> bits; }

DEVICE int32 luma_of(const uint8 *p) { return (19595 * p[0] + 38470 * p[1] + 7471 * p[2] + 32768) >> 16; }
DEVICE int32 blue_of(const uint8 *p) { return (-11058 * p[0] - 21710 * p[1] + 32768 * p[2] + (128 << 16) + 32767) >> 16; }
DEVICE int32 red_of(const uint8 *p) { return (32768 * p[0] - 27439 * p[1] - 5329 * p[2] + (128 << 16) + 32767) >> 16; }

// ----------------------------------------------------------------------------------------- cosine transforms of eight values, `step` apart

// Factors in fixed point with 13 fractional bits.
#define F_0_298 2446
#define F_0_390 3196
#define F_0_541 4433
#define F_0_765 6270
#define F_0_899 7373
#define F_1_175 9633
#define F_1_501 12299
#define F_1_847 15137
#define F_1_961 16069
#define F_2_053 16819
#define F_2_562 20995
#define F_3_072 25172

// Forward transform. The first pass keeps 2 fractional bits, which the second pass drops. Results are 8 times too large.
DEVICE void forward(int32 *x, int32 step, bool first) {
    const int32 shift = first ? 13 - 2 : 13 + 2;
    const int32 sum0 = x[0] + x[7 * step], sum1 = x[step] + x[6 * step], sum2 = x[2 * step] + x[5 * step], sum3 = x[3 * step] + x[4 * step];
    const int32 dif0 = x[0] - x[7 * step], dif1 = x[step] - x[6 * step], dif2 = x[2 * step] - x[5 * step], dif3 = x[3 * step] - x[4 * step];
    const int32 a = sum0 + sum3, b = sum0 - sum3, c = sum1 + sum2, d = sum1 - sum2;
    x[0] = first ? (a + c) * 4 : descaled(a + c, 2);
    x[4 * step] = first ? (a - c) * 4 : descaled(a - c, 2);
    const int32 even = (d + b) * F_0_541;
    x[2 * step] = descaled(even + b * F_0_765, shift);
    x[6 * step] = descaled(even - d * F_1_847, shift);
    const int32 both = (dif3 + dif1 + dif2 + dif0) * F_1_175;
    const int32 z1 = -(dif3 + dif0) * F_0_899, z2 = -(dif2 + dif1) * F_2_562;
    const int32 z3 = both - (dif3 + dif1) * F_1_961, z4 = both - (dif2 + dif0) * F_0_390;
    x[7 * step] = descaled(dif3 * F_0_298 + z1 + z3, shift);
    x[5 * step] = descaled(dif2 * F_2_053 + z2 + z4, shift);
    x[3 * step] = descaled(dif1 * F_3_072 + z2 + z3, shift);
    x[step] = descaled(dif0 * F_1_501 + z1 + z4, shift);
}

// Inverse transform. The first pass keeps 2 fractional bits. The second pass drops them and divides by 8.
DEVICE void inverse(int32 *x, int32 step, bool first) {
    const int32 shift = first ? 13 - 2 : 13 + 2 + 3;
    const int32 even = (x[2 * step] + x[6 * step]) * F_0_541;
    const int32 e2 = even - x[6 * step] * F_1_847, e3 = even + x[2 * step] * F_0_765;
    const int32 e0 = (x[0] + x[4 * step]) * 8192, e1 = (x[0] - x[4 * step]) * 8192;
    const int32 a = e0 + e3, d = e0 - e3, b = e1 + e2, c = e1 - e2;
    const int32 x7 = x[7 * step], x5 = x[5 * step], x3 = x[3 * step], x1 = x[step];
    const int32 both = (x7 + x3 + x5 + x1) * F_1_175;
    const int32 z1 = -(x7 + x1) * F_0_899, z2 = -(x5 + x3) * F_2_562;
    const int32 z3 = both - (x7 + x3) * F_1_961, z4 = both - (x5 + x1) * F_0_390;
    const int32 o0 = x7 * F_0_298 + z1 + z3, o1 = x5 * F_2_053 + z2 + z4, o2 = x3 * F_3_072 + z2 + z3, o3 = x1 * F_1_501 + z1 + z4;
    x[0] = descaled(a + o3, shift);
    x[7 * step] = descaled(a - o3, shift);
    x[step] = descaled(b + o2, shift);
    x[6 * step] = descaled(b - o2, shift);
    x[2 * step] = descaled(c + o1, shift);
    x[5 * step] = descaled(c - o1, shift);
    x[3 * step] = descaled(d + o0, shift);
    x[4 * step] = descaled(d - o0, shift);
}

// `value / divisor`, rounded to the nearest integer; ties go away from 0.
DEVICE int32 divided(int32 value, int32 divisor) {
    const int32 whole = (magnitude(value) + divisor / 2) / divisor;
    return value < 0 ? -whole : whole;
}

// ------------------------------------------------------------------------------------------------------------------ from pixels to planes

// Sample `k` of the unit at (top, left), minus 128: luma block by block, then Cb and Cr. Beyond the borders the last pixels are repeated.
DEVICE int32 encoded(const uint8 *image, int64 height, int64 width, int64 top, int64 left, int32 k) {
    const int32 block = k / (SIDE * SIDE), y = k / SIDE % SIDE, x = k % SIDE;
    if (block < 4) {
        const int64 row = smaller(top + block / 2 * SIDE + y, height - 1), column = smaller(left + block % 2 * SIDE + x, width - 1);
        return luma_of(image + 3 * (row * width + column)) - 128;
    }
    const int64 row = 2 * smaller(top / 2 + y, (height - 1) / 2), column = left + 2 * x;
    const int64 above = row * width, below = smaller(row + 1, height - 1) * width;
    const int64 one = smaller(column, width - 1), other = smaller(column + 1, width - 1);
    const uint8 *corners[4] = {image + 3 * (above + one), image + 3 * (above + other), image + 3 * (below + one), image + 3 * (below + other)};
    int32 total = 1 + (x & 1);  // so that halves are rounded up and down equally often
    for (int corner = 0; corner < 4; ++corner) total += block == 4 ? blue_of(corners[corner]) : red_of(corners[corner]);
    return (total >> 2) - 128;
}

// Offset of sample `k` of a unit in the frame's planes.
DEVICE int64 place_of(int64 down, int64 across, int64 unit_row, int64 unit_column, int32 k) {
    const int32 block = k / (SIDE * SIDE), y = k / SIDE % SIDE, x = k % SIDE;
    if (block < 4) return (unit_row * UNIT + block / 2 * SIDE + y) * across * UNIT + unit_column * UNIT + block % 2 * SIDE + x;
    const int64 chroma = down * across * (UNIT * UNIT + (block - 4) * SIDE * SIDE);
    return chroma + (unit_row * SIDE + y) * across * SIDE + unit_column * SIDE + x;
}

// Transform, quantise, dequantise and transform back. THREADS threads compute a unit.
KERNEL distort(const int64 *context) {
    __shared__ int32 shared[UNITS * BLOCKS * SIDE * SIDE];
    const int32 own = threadIdx.x / THREADS, lane = threadIdx.x % THREADS;
    int32 *unit = shared + own * BLOCKS * SIDE * SIDE;
    FOR_SAMPLES(sample, context[DISTORTION_GPU_SAMPLES]) {
        const int64 *r = array<int64>(context, DISTORTION_GPU_RECORDS) + DISTORTION_RECORD_WORDS * sample;
        const int64 height = r[DISTORTION_RECORD_HEIGHT], width = r[DISTORTION_RECORD_WIDTH];
        const int64 down = r[DISTORTION_RECORD_DOWN], across = r[DISTORTION_RECORD_ACROSS];
        const int64 count = r[DISTORTION_RECORD_FRAMES] * down * across;
        const int32 *divisors = array<int32>(context, DISTORTION_GPU_DIVISORS) + 2 * SIDE * SIDE * sample;
        for (int64 begin = (int64)blockIdx.x * UNITS; begin < count; begin += (int64)gridDim.x * UNITS) {
            const bool there = begin + own < count;
            int64 rest = smaller(begin + own, count - 1);
            const int64 column = take(rest, across), row = take(rest, down), frame = rest;
            const uint8 *image = at<const uint8>(address(context, DISTORTION_GPU_INPUTS, sample)) + 3 * frame * height * width;
            uint8 *planes = at<uint8>(context[DISTORTION_GPU_PLANES]) + r[DISTORTION_RECORD_BEGIN] + frame * down * across * UNIT_BYTES;
            for (int32 k = lane; k < BLOCKS * SIDE * SIDE; k += THREADS)
                unit[k] = encoded(image, height, width, row * UNIT, column * UNIT, k);
            __syncthreads();
            int32 *block = unit + lane / SIDE * SIDE * SIDE;
            const int32 line = lane % SIDE;
            if (lane < BLOCKS * SIDE) forward(block + line * SIDE, 1, true);
            __syncthreads();
            if (lane < BLOCKS * SIDE) {
                forward(block + line, SIDE, false);
                const int32 *table = divisors + (lane / SIDE < 4 ? 0 : SIDE * SIDE);
                for (int32 k = line; k < SIDE * SIDE; k += SIDE) block[k] = divided(block[k], table[k] * 8) * table[k];
                inverse(block + line, SIDE, true);
            }
            __syncthreads();
            if (lane < BLOCKS * SIDE) inverse(block + line * SIDE, 1, false);
            __syncthreads();
            for (int32 k = lane; there && k < BLOCKS * SIDE * SIDE; k += THREADS)
                planes[place_of(down, across, row, column, k)] = clamped(unit[k] + 128);
            __syncthreads();
        }
    }
}

// ------------------------------------------------------------------------------------------------------------------ from planes to pixels

// Chroma of the pixel (y, x). The nearer row and column have weight 3/4, the next nearest have weight 1/4. Planes of one or two columns are
// not interpolated. `stride`: bytes of a row; `rows`, `columns`: extents of the chroma plane, without padding.
DEVICE int32 chroma_at(const uint8 *plane, int64 stride, int64 rows, int64 columns, int64 y, int64 x) {
    const int64 row = y / 2, column = x / 2;
    if (columns <= 2) return plane[row * stride + column];
    const int64 other = smaller(larger(row + (y & 1 ? 1 : -1), (int64)0), rows - 1);
    const int64 beside = smaller(larger(column + (x & 1 ? 1 : -1), (int64)0), columns - 1);
    const int32 near = 3 * plane[row * stride + column] + plane[other * stride + column];
    const int32 far = 3 * plane[row * stride + beside] + plane[other * stride + beside];
    return (3 * near + far + (x & 1 ? 7 : 8)) >> 4;
}

KERNEL color(const int64 *context) {
    FOR_SAMPLES(sample, context[DISTORTION_GPU_SAMPLES]) {
        const int64 *r = array<int64>(context, DISTORTION_GPU_RECORDS) + DISTORTION_RECORD_WORDS * sample;
        const int64 height = r[DISTORTION_RECORD_HEIGHT], width = r[DISTORTION_RECORD_WIDTH];
        const int64 down = r[DISTORTION_RECORD_DOWN], across = r[DISTORTION_RECORD_ACROSS], units = down * across;
        const int64 rows = (height + 1) / 2, columns = (width + 1) / 2;
        FOR_ITEMS(i, r[DISTORTION_RECORD_FRAMES] * height * width) {
            int64 rest = i;
            const int64 x = take(rest, width), y = take(rest, height), frame = rest;
            const uint8 *planes = at<const uint8>(context[DISTORTION_GPU_PLANES]) + r[DISTORTION_RECORD_BEGIN] + frame * units * UNIT_BYTES;
            const uint8 *blue = planes + units * UNIT * UNIT, *red = blue + units * SIDE * SIDE;
            const int32 luma = planes[y * across * UNIT + x];
            const int32 cb = chroma_at(blue, across * SIDE, rows, columns, y, x) - 128;
            const int32 cr = chroma_at(red, across * SIDE, rows, columns, y, x) - 128;
            uint8 *out = at<uint8>(address(context, DISTORTION_GPU_OUTPUTS, sample)) + 3 * i;
            out[0] = clamped(luma + ((91881 * cr + 32768) >> 16));
            out[1] = clamped(luma + ((-22554 * cb - 46802 * cr + 32768) >> 16));
            out[2] = clamped(luma + ((116130 * cb + 32768) >> 16));
        }
    }
}
