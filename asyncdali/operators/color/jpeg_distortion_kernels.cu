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

// `value / divisor`, rounded to the nearest integer; ties go away from 0. `reciprocal` is 2**32 / divisor, rounded up: exact for values
// below 2**20 and divisors below 2**11.
DEVICE int32 divided(int32 value, int32 divisor, uint32 reciprocal) {
    const int32 whole = (int32)((uint64)(uint32)(magnitude(value) + divisor / 2) * reciprocal >> 32);
    return value < 0 ? -whole : whole;
}

// ------------------------------------------------------------------------------------------------------------------ from pixels to planes

// The place of the sample (y, x) of a block of shared memory. With these distances between rows and blocks, the threads of a warp use all
// banks, along rows as well as along columns.
#define PITCH (SIDE + 1)
#define BLOCK_PITCH (SIDE * PITCH)
DEVICE int32 luma_place(int32 y, int32 x) { return (y / SIDE * 2 + x / SIDE) * BLOCK_PITCH + y % SIDE * PITCH + x % SIDE; }

// Encode the pixels (y, x) to (y + 1, x + 1) of a frame, which are the quad `lane` of a unit: four samples of luma, one of Cb, one of Cr,
// minus 128. Beyond the borders the last pixels are repeated.
DEVICE void encode(const uint8 *image, int64 height, int64 width, int64 y, int64 x, int32 lane, int32 *unit) {
    const int32 down = lane / SIDE, across = lane % SIDE;
    int32 luma[4], blue = 1 + (across & 1), red = blue;  // so that halves are rounded up and down equally often
    const int64 row = 2 * smaller(y / 2, (height - 1) / 2);  // of chroma
    for (int32 k = 0; k < 4; ++k) {
        const int64 column = smaller(x + k % 2, width - 1);
        const uint8 *pixel = image + 3 * (smaller(y + k / 2, height - 1) * width + column);
        const uint8 *corner = y < height ? pixel : image + 3 * (smaller(row + k / 2, height - 1) * width + column);
        luma[k] = luma_of(pixel) - 128;
        blue += blue_of(corner);
        red += red_of(corner);
    }
    for (int32 k = 0; k < 4; ++k) unit[luma_place(2 * down + k / 2, 2 * across + k % 2)] = luma[k];
    unit[4 * BLOCK_PITCH + down * PITCH + across] = (blue >> 2) - 128;
    unit[5 * BLOCK_PITCH + down * PITCH + across] = (red >> 2) - 128;
}

// Four neighbouring samples, as bytes.
DEVICE Pack<uint8> bytes_of(const int32 *samples) {
    Pack<uint8> pack;
    for (int k = 0; k < PACK; ++k) pack.element[k] = clamped(samples[k] + 128);
    return pack;
}

// Transform, quantise, dequantise and transform back. THREADS threads encode and store a unit; a thread transforms a line of a block.
KERNEL distort(const int64 *context) {
    __shared__ int32 shared[UNITS * BLOCKS * BLOCK_PITCH];
    __shared__ int32 factors[2 * SIDE * SIDE];
    __shared__ uint32 reciprocals[2 * SIDE * SIDE];
    const int32 own = threadIdx.x / THREADS, lane = threadIdx.x % THREADS;
    int32 *unit = shared + own * BLOCKS * BLOCK_PITCH;
    const bool transforms = threadIdx.x < UNITS * BLOCKS * SIDE;
    const int32 line = threadIdx.x % SIDE, number = threadIdx.x / SIDE;
    int32 *block = shared + (transforms ? number : 0) * BLOCK_PITCH;
    const int32 table = number % BLOCKS < 4 ? 0 : SIDE * SIDE;
    FOR_SAMPLES(sample, context[DISTORTION_GPU_SAMPLES]) {
        const int64 *r = array<int64>(context, DISTORTION_GPU_RECORDS) + DISTORTION_RECORD_WORDS * sample;
        const int64 height = r[DISTORTION_RECORD_HEIGHT], width = r[DISTORTION_RECORD_WIDTH];
        const int64 down = r[DISTORTION_RECORD_DOWN], across = r[DISTORTION_RECORD_ACROSS];
        const int64 count = r[DISTORTION_RECORD_FRAMES] * down * across;
        const int32 *divisors = array<int32>(context, DISTORTION_GPU_DIVISORS) + 2 * SIDE * SIDE * sample;
        for (int32 k = threadIdx.x; k < 2 * SIDE * SIDE; k += blockDim.x) {
            factors[k] = divisors[k];
            reciprocals[k] = 0xffffffffu / (uint32)(8 * divisors[k]) + 1;
        }
        __syncthreads();
        for (int64 begin = (int64)blockIdx.x * UNITS; begin < count; begin += (int64)gridDim.x * UNITS) {
            const bool there = begin + own < count;
            int64 rest = smaller(begin + own, count - 1);
            const int64 column = take(rest, across), row = take(rest, down), frame = rest;
            const uint8 *image = at<const uint8>(address(context, DISTORTION_GPU_INPUTS, sample)) + 3 * frame * height * width;
            uint8 *planes = at<uint8>(context[DISTORTION_GPU_PLANES]) + r[DISTORTION_RECORD_BEGIN] + frame * down * across * UNIT_BYTES;
            encode(image, height, width, row * UNIT + 2 * (lane / SIDE), column * UNIT + 2 * (lane % SIDE), lane, unit);
            __syncthreads();
            if (transforms) forward(block + line * PITCH, 1, true);
            __syncthreads();
            if (transforms) {
                forward(block + line, PITCH, false);
                for (int32 k = 0; k < SIDE; ++k) {
                    const int32 factor = factors[table + SIDE * k + line];
                    int32 &value = block[k * PITCH + line];
                    value = divided(value, factor * 8, reciprocals[table + SIDE * k + line]) * factor;
                }
                inverse(block + line, PITCH, true);
            }
            __syncthreads();
            if (transforms) inverse(block + line * PITCH, 1, false);
            __syncthreads();
            if (there) {
                const int32 y = lane / 4, x = lane % 4 * PACK;  // of luma
                uint8 *luma = planes + (row * UNIT + y) * across * UNIT + column * UNIT + x;
                *at<Pack<uint8>>((int64)luma) = bytes_of(unit + luma_place(y, x));
                if (lane < 2 * SIDE * SIDE / PACK) {
                    const int32 plane = lane / (SIDE * SIDE / PACK), i = lane % (SIDE * SIDE / PACK), v = i / 2, u = i % 2 * PACK;
                    uint8 *chroma = planes + down * across * (UNIT * UNIT + plane * SIDE * SIDE);
                    *at<Pack<uint8>>((int64)(chroma + (row * SIDE + v) * across * SIDE + column * SIDE + u)) =
                        bytes_of(unit + (4 + plane) * BLOCK_PITCH + v * PITCH + u);
                }
            }
            __syncthreads();
        }
    }
}

// ------------------------------------------------------------------------------------------------------------------ from planes to pixels

// A line of a chroma plane between two rows: the nearer row has weight 3/4, the next nearest has weight 1/4. Sums are 4 times too large.
struct ChromaLine {
    const uint8 *near, *far;
    int64 columns;
    DEVICE_MEMBER int32 at_column(int64 column) const {
        const int64 c = smaller(larger(column, (int64)0), columns - 1);
        return 3 * near[c] + far[c];
    }
};

DEVICE ChromaLine line_of(const uint8 *plane, int64 stride, int64 rows, int64 columns, int64 y) {
    const int64 row = y / 2, other = smaller(larger(row + (y & 1 ? 1 : -1), (int64)0), rows - 1);
    return {plane + row * stride, plane + other * stride, columns};
}

// Chroma of the PACK pixels from an even column `x` on, minus 128. Along the row, weights are 3/4 and 1/4, too. Planes of one or two
// columns are not interpolated.
DEVICE void chroma_of(const ChromaLine &line, int64 x, int32 *chroma) {
    const int64 column = x / 2;
    if (line.columns <= 2) {
        for (int k = 0; k < PACK; ++k) chroma[k] = line.near[smaller(column + k / 2, line.columns - 1)] - 128;
        return;
    }
    int32 sums[PACK / 2 + 2];
    for (int k = 0; k < PACK / 2 + 2; ++k) sums[k] = line.at_column(column + k - 1);
    for (int k = 0; k < PACK; ++k) {
        const int32 odd = k & 1;
        chroma[k] = ((3 * sums[1 + k / 2] + sums[odd ? 2 + k / 2 : k / 2] + (odd ? 7 : 8)) >> 4) - 128;
    }
}

// A thread computes PACK neighbouring pixels of a row.
KERNEL color(const int64 *context) {
    FOR_SAMPLES(sample, context[DISTORTION_GPU_SAMPLES]) {
        const int64 *r = array<int64>(context, DISTORTION_GPU_RECORDS) + DISTORTION_RECORD_WORDS * sample;
        const int64 height = r[DISTORTION_RECORD_HEIGHT], width = r[DISTORTION_RECORD_WIDTH];
        const int64 down = r[DISTORTION_RECORD_DOWN], across = r[DISTORTION_RECORD_ACROSS], units = down * across;
        const int64 rows = (height + 1) / 2, columns = (width + 1) / 2, packs = (width + PACK - 1) / PACK;
        FOR_ITEMS(i, r[DISTORTION_RECORD_FRAMES] * height * packs) {
            int64 rest = i;
            const int64 x = PACK * take(rest, packs), y = take(rest, height), frame = rest;
            const uint8 *planes = at<const uint8>(context[DISTORTION_GPU_PLANES]) + r[DISTORTION_RECORD_BEGIN] + frame * units * UNIT_BYTES;
            const uint8 *blue = planes + units * UNIT * UNIT, *red = blue + units * SIDE * SIDE;
            const Pack<uint8> luma = *at<const Pack<uint8>>((int64)(planes + y * across * UNIT + x));
            int32 cb[PACK], cr[PACK];
            chroma_of(line_of(blue, across * SIDE, rows, columns, y), x, cb);
            chroma_of(line_of(red, across * SIDE, rows, columns, y), x, cr);
            Pack<uint8> colors[3];
            for (int k = 0; k < PACK; ++k) {
                uint8 *bytes = &colors[0].element[0] + 3 * k;
                bytes[0] = clamped(luma.element[k] + ((91881 * cr[k] + 32768) >> 16));
                bytes[1] = clamped(luma.element[k] + ((-22554 * cb[k] - 46802 * cr[k] + 32768) >> 16));
                bytes[2] = clamped(luma.element[k] + ((116130 * cb[k] + 32768) >> 16));
            }
            const int64 out = address(context, DISTORTION_GPU_OUTPUTS, sample) + 3 * ((frame * height + y) * width + x);
            for (int k = 0; k < 3; ++k) put(out, PACK * k, 3 * (width - x), colors[k]);
        }
    }
}
