// jpeg_compression_distortion: the effect of JPEG encoding (4:2:0) and decoding on an image. The arithmetic is libjpeg's: colours in 16-bit
// fixed point, the accurate integer transforms ("islow"; Loeffler, Ligtenberg and Moschytz, ICASSP 1989), and chroma upsampling with the
// triangle filter. Entropy coding is lossless and therefore omitted.
#include "few_bytes.cuh"
#include "jpeg_distortion_tables.py"

#define UNIT 16    // pixels of a unit (MCU) along each axis
#define SIDE 8     // samples of a block along each axis
#define BLOCKS 6   // blocks of a unit: four of luma, Cb, Cr
#define THREADS 64 // threads that share a unit
#define UNITS 4    // units that a block of threads computes at a time
#define UNIT_BYTES (UNIT * UNIT + 2 * SIDE * SIDE)

// Four numbers as bytes, the first one lowest; numbers below 0 become 0, numbers above 255 become 255.
DEVICE uint32 saturated(int32 a, int32 b, int32 c, int32 d) {
#if !defined(HOST_BUILD) && __CUDA_ARCH__ >= 720
    uint32 word;
    asm("cvt.pack.sat.u8.s32.b32 %0, %1, %2, 0;" : "=r"(word) : "r"(d), "r"(c));
    asm("cvt.pack.sat.u8.s32.b32 %0, %1, %2, %3;" : "=r"(word) : "r"(b), "r"(a), "r"(word));
    return word;
#else
    const int32 value[4] = {a, b, c, d};
    uint32 word = 0;
    for (int32 k = 0; k < 4; ++k) word |= (uint32)smaller(larger(value[k], 0), 255) << 8 * k;
    return word;
#endif
}
DEVICE int32 descaled(int32 value, int32 bits) { return (value + (1 << (bits - 1))) >> bits; }

DEVICE int32 luma_of(const uint8 *p) { return (19595 * p[0] + 38470 * p[1] + 7471 * p[2] + 32768) >> 16; }
DEVICE int32 blue_of(const uint8 *p) { return (-11058 * p[0] - 21710 * p[1] + 32768 * p[2] + (128 << 16) + 32767) >> 16; }
DEVICE int32 red_of(const uint8 *p) { return (32768 * p[0] - 27439 * p[1] - 5329 * p[2] + (128 << 16) + 32767) >> 16; }

// ---------------------------------------------------------------------------------------------------- cosine transforms of eight values

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
DEVICE void forward(int32 *x, bool first) {
    const int32 shift = first ? 13 - 2 : 13 + 2;
    const int32 sum0 = x[0] + x[7], sum1 = x[1] + x[6], sum2 = x[2] + x[5], sum3 = x[3] + x[4];
    const int32 dif0 = x[0] - x[7], dif1 = x[1] - x[6], dif2 = x[2] - x[5], dif3 = x[3] - x[4];
    const int32 a = sum0 + sum3, b = sum0 - sum3, c = sum1 + sum2, d = sum1 - sum2;
    x[0] = first ? (a + c) * 4 : descaled(a + c, 2);
    x[4] = first ? (a - c) * 4 : descaled(a - c, 2);
    const int32 even = (d + b) * F_0_541;
    x[2] = descaled(even + b * F_0_765, shift);
    x[6] = descaled(even - d * F_1_847, shift);
    const int32 both = (dif3 + dif1 + dif2 + dif0) * F_1_175;
    const int32 z1 = -(dif3 + dif0) * F_0_899, z2 = -(dif2 + dif1) * F_2_562;
    const int32 z3 = both - (dif3 + dif1) * F_1_961, z4 = both - (dif2 + dif0) * F_0_390;
    x[7] = descaled(dif3 * F_0_298 + z1 + z3, shift);
    x[5] = descaled(dif2 * F_2_053 + z2 + z4, shift);
    x[3] = descaled(dif1 * F_3_072 + z2 + z3, shift);
    x[1] = descaled(dif0 * F_1_501 + z1 + z4, shift);
}

// Inverse transform. The first pass keeps 2 fractional bits. The second pass drops them and divides by 8.
DEVICE void inverse(int32 *x, bool first) {
    const int32 shift = first ? 13 - 2 : 13 + 2 + 3;
    const int32 even = (x[2] + x[6]) * F_0_541;
    const int32 e2 = even - x[6] * F_1_847, e3 = even + x[2] * F_0_765;
    const int32 e0 = (x[0] + x[4]) * 8192, e1 = (x[0] - x[4]) * 8192;
    const int32 a = e0 + e3, d = e0 - e3, b = e1 + e2, c = e1 - e2;
    const int32 x7 = x[7], x5 = x[5], x3 = x[3], x1 = x[1];
    const int32 both = (x7 + x3 + x5 + x1) * F_1_175;
    const int32 z1 = -(x7 + x1) * F_0_899, z2 = -(x5 + x3) * F_2_562;
    const int32 z3 = both - (x7 + x3) * F_1_961, z4 = both - (x5 + x1) * F_0_390;
    const int32 o0 = x7 * F_0_298 + z1 + z3, o1 = x5 * F_2_053 + z2 + z4, o2 = x3 * F_3_072 + z2 + z3, o3 = x1 * F_1_501 + z1 + z4;
    x[0] = descaled(a + o3, shift);
    x[7] = descaled(a - o3, shift);
    x[1] = descaled(b + o2, shift);
    x[6] = descaled(b - o2, shift);
    x[2] = descaled(c + o1, shift);
    x[5] = descaled(c - o1, shift);
    x[3] = descaled(d + o0, shift);
    x[4] = descaled(d - o0, shift);
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

// Colours of four pixels, which share a sample of Cb and of Cr.
struct Colors {
    int32 luma[4], blue, red;
    DEVICE_MEMBER void add(int32 k, const uint8 *pixel, const uint8 *corner) {
        luma[k] = luma_of(pixel) - 128;
        blue += blue_of(corner);
        red += red_of(corner);
    }
};

// Encode the pixels (y, x) to (y + 1, x + 1) of a frame, which are the quad `lane` of a unit: four samples of luma, one of Cb, one of Cr,
// minus 128. Beyond the borders the last pixels are repeated.
DEVICE void encode(const uint8 *image, int32 height, int32 width, int32 y, int32 x, int32 lane, int32 *unit) {
    const int32 down = lane / SIDE, across = lane % SIDE, bias = 1 + (across & 1);  // so that halves are rounded up and down equally often
    Colors colors = {{}, bias, bias};
    if (y + 1 < height && x + 1 < width) {
        const int64 first = (int64)image + 3 * ((int64)y * width + x);
        #pragma unroll
        for (int32 row = 0; row < 2; ++row) {
            const SixBytes bytes = six_bytes(first + 3 * (int64)width * row);
            uint8 pixel[6];
            #pragma unroll
            for (int32 k = 0; k < 6; ++k) pixel[k] = (uint8)((k < 4 ? bytes.low : bytes.high) >> 8 * (k & 3));
            colors.add(2 * row, pixel, pixel);
            colors.add(2 * row + 1, pixel + 3, pixel + 3);
        }
    } else {
        const int64 last = 2 * smaller(y / 2, (height - 1) / 2);  // the first row of the last row of chroma
        for (int32 k = 0; k < 4; ++k) {
            const int64 column = smaller(x + k % 2, width - 1);
            const uint8 *pixel = image + 3 * ((int64)smaller(y + k / 2, height - 1) * width + column);
            colors.add(k, pixel, y < height ? pixel : image + 3 * (smaller(last + k / 2, (int64)height - 1) * width + column));
        }
    }
    for (int32 k = 0; k < 4; ++k) unit[luma_place(2 * down + k / 2, 2 * across + k % 2)] = colors.luma[k];
    unit[4 * BLOCK_PITCH + down * PITCH + across] = (colors.blue >> 2) - 128;
    unit[5 * BLOCK_PITCH + down * PITCH + across] = (colors.red >> 2) - 128;
}

// Transform, quantise, dequantise and transform back. THREADS threads encode a unit; a thread transforms a line of a block, in registers.
KERNEL_OF(4) distort(const int64 *context) {
    __shared__ int32 shared[UNITS * BLOCKS * BLOCK_PITCH];
    const int32 own = threadIdx.x / THREADS, lane = threadIdx.x % THREADS;
    int32 *unit = shared + own * BLOCKS * BLOCK_PITCH;
    const bool transforms = threadIdx.x < UNITS * BLOCKS * SIDE;
    const int32 line = threadIdx.x % SIDE, number = transforms ? threadIdx.x / SIDE : 0, kind = number % BLOCKS, table = kind < 4 ? 0 : SIDE * SIDE;
    int32 *block = shared + number * BLOCK_PITCH;
    FOR_SAMPLES(sample, context[DISTORTION_GPU_SAMPLES]) {
        const int64 *r = array<int64>(context, DISTORTION_GPU_RECORDS) + DISTORTION_RECORD_WORDS * sample;
        const int64 height = r[DISTORTION_RECORD_HEIGHT], width = r[DISTORTION_RECORD_WIDTH];
        const int64 down = r[DISTORTION_RECORD_DOWN], across = r[DISTORTION_RECORD_ACROSS];
        const int64 count = r[DISTORTION_RECORD_FRAMES] * down * across;
        const int32 *divisors = array<int32>(context, DISTORTION_GPU_DIVISORS) + 2 * SIDE * SIDE * sample + table + line;
        int32 factors[SIDE];
        uint32 reciprocals[SIDE];
        #pragma unroll
        for (int32 k = 0; k < SIDE; ++k) {
            factors[k] = divisors[SIDE * k];
            reciprocals[k] = 0xffffffffu / (uint32)(8 * factors[k]) + 1;
        }
        for (int64 begin = (int64)blockIdx.x * UNITS; begin < count; begin += (int64)gridDim.x * UNITS) {
            {
                int64 rest = smaller(begin + own, count - 1);
                const int32 column = (int32)take(rest, across), row = (int32)take(rest, down);
                const uint8 *image = at<const uint8>(address(context, DISTORTION_GPU_INPUTS, sample)) + 3 * rest * height * width;
                encode(image, (int32)height, (int32)width, row * UNIT + 2 * (lane / SIDE), column * UNIT + 2 * (lane % SIDE), lane, unit);
            }
            __syncthreads();
            int32 x[SIDE];
            if (transforms) {
                #pragma unroll
                for (int32 k = 0; k < SIDE; ++k) x[k] = block[line * PITCH + k];
                forward(x, true);
                #pragma unroll
                for (int32 k = 0; k < SIDE; ++k) block[line * PITCH + k] = x[k];
            }
            __syncthreads();
            if (transforms) {
                #pragma unroll
                for (int32 k = 0; k < SIDE; ++k) x[k] = block[k * PITCH + line];
                forward(x, false);
                #pragma unroll
                for (int32 k = 0; k < SIDE; ++k) x[k] = divided(x[k], factors[k] * 8, reciprocals[k]) * factors[k];
                inverse(x, true);
                #pragma unroll
                for (int32 k = 0; k < SIDE; ++k) block[k * PITCH + line] = x[k];
            }
            __syncthreads();
            int64 rest = begin + number / BLOCKS;
            if (transforms && rest < count) {
                #pragma unroll
                for (int32 k = 0; k < SIDE; ++k) x[k] = block[line * PITCH + k];
                inverse(x, false);
                #pragma unroll
                for (int32 k = 0; k < SIDE; ++k) x[k] += 128;
                const int64 column = take(rest, across), row = take(rest, down), units = down * across;
                int64 to = context[DISTORTION_GPU_PLANES] + r[DISTORTION_RECORD_BEGIN] + rest * units * UNIT_BYTES;
                if (kind < 4) to += (row * UNIT + kind / 2 * SIDE + line) * across * UNIT + column * UNIT + kind % 2 * SIDE;
                else to += units * (UNIT * UNIT + (kind - 4) * SIDE * SIDE) + (row * SIDE + line) * across * SIDE + column * SIDE;
                at<uint32>(to)[0] = saturated(x[0], x[1], x[2], x[3]);
                at<uint32>(to)[1] = saturated(x[4], x[5], x[6], x[7]);
            }
            __syncthreads();
        }
    }
}

// ------------------------------------------------------------------------------------------------------------------ from planes to pixels

// Four columns of a chroma plane from the column before an even column `c` on, in two rows. Columns beyond the borders repeat the last one.
struct Chroma {
    int32 upper[4], lower[4];

    DEVICE_MEMBER static void load(const uint8 *row, int32 c, int32 columns, int32 *to) {
        const int32 both = *at<const uint16>((int64)(row + c));  // rows begin at even addresses and have an even length
        to[1] = both & 255;
        to[2] = c + 1 < columns ? both >> 8 : to[1];
        to[0] = c > 0 ? row[c - 1] : to[1];
        to[3] = c + 2 < columns ? row[c + 2] : to[2];
    }

    // Chroma of PACK pixels in a row, minus 128. The nearer row and the nearer column have weight 3/4, the others 1/4.
    DEVICE_MEMBER static void blended(const int32 *near, const int32 *far, bool narrow, int32 *chroma) {
        int32 sums[4];
        #pragma unroll
        for (int32 k = 0; k < 4; ++k) sums[k] = 3 * near[k] + far[k];
        #pragma unroll
        for (int32 k = 0; k < PACK; ++k) {
            const int32 odd = k & 1, middle = 1 + k / 2;
            chroma[k] = narrow ? near[middle] - 128 : ((3 * sums[middle] + sums[odd ? middle + 1 : middle - 1] + (odd ? 7 : 8)) >> 4) - 128;
        }
    }
};

// A thread computes PACK neighbouring pixels of two rows, 2 k - 1 and 2 k, which lie between the chroma rows k - 1 and k. Planes of one or two
// chroma columns are not smoothed.
KERNEL_OF(3) color(const int64 *context) {
    FOR_SAMPLES(sample, context[DISTORTION_GPU_SAMPLES]) {
        const int64 *r = array<int64>(context, DISTORTION_GPU_RECORDS) + DISTORTION_RECORD_WORDS * sample;
        const int64 height = r[DISTORTION_RECORD_HEIGHT], width = r[DISTORTION_RECORD_WIDTH];
        const int64 down = r[DISTORTION_RECORD_DOWN], across = r[DISTORTION_RECORD_ACROSS], units = down * across;
        const int64 rows = (height + 1) / 2;
        const int32 columns = (int32)((width + 1) / 2), packs = (int32)((width + PACK - 1) / PACK), lanes = lanes_of(packs);
        const bool narrow = columns <= 2;
        FOR_ROWS(pair, r[DISTORTION_RECORD_FRAMES] * (height / 2 + 1), lanes) {
            int64 frame = pair;
            const int64 k = take(frame, height / 2 + 1), upper = larger(k - 1, (int64)0), lower = smaller(k, rows - 1);
            const uint8 *planes = at<const uint8>(context[DISTORTION_GPU_PLANES]) + r[DISTORTION_RECORD_BEGIN] + frame * units * UNIT_BYTES;
            const uint8 *luma = planes + (2 * k - 1) * across * UNIT;
            const uint8 *blue = planes + units * UNIT * UNIT, *red = blue + units * SIDE * SIDE;
            const int64 out = address(context, DISTORTION_GPU_OUTPUTS, sample) + 3 * (frame * height + 2 * k - 1) * width;
            FOR_COLUMNS(pack, packs, lanes) {
                const int32 x = PACK * pack;
                Chroma cb, cr;
                Chroma::load(blue + upper * across * SIDE, x / 2, columns, cb.upper), Chroma::load(blue + lower * across * SIDE, x / 2, columns, cb.lower);
                Chroma::load(red + upper * across * SIDE, x / 2, columns, cr.upper), Chroma::load(red + lower * across * SIDE, x / 2, columns, cr.lower);
                #pragma unroll
                for (int32 row = 0; row < 2; ++row) {
                    if (row ? 2 * k >= height : k == 0) continue;
                    const uint32 word = *at<const uint32>((int64)(luma + row * across * UNIT + x));
                    int32 b[PACK], c[PACK], bytes[3 * PACK];
                    Chroma::blended(row ? cb.lower : cb.upper, row ? cb.upper : cb.lower, narrow, b);
                    Chroma::blended(row ? cr.lower : cr.upper, row ? cr.upper : cr.lower, narrow, c);
                    #pragma unroll
                    for (int32 j = 0; j < PACK; ++j) {
                        const int32 y = (int32)(word >> 8 * j & 255);
                        bytes[3 * j] = y + ((91881 * c[j] + 32768) >> 16);
                        bytes[3 * j + 1] = y + ((-22554 * b[j] - 46802 * c[j] + 32768) >> 16);
                        bytes[3 * j + 2] = y + ((116130 * b[j] + 32768) >> 16);
                    }
                    #pragma unroll
                    for (int32 j = 0; j < 3; ++j) {
                        union { uint32 word; Pack<uint8> pack; } both;
                        both.word = saturated(bytes[4 * j], bytes[4 * j + 1], bytes[4 * j + 2], bytes[4 * j + 3]);
                        put(out + 3 * row * width, 3 * x + PACK * j, 3 * width, both.pack);
                    }
                }
            }
        }
    }
}
