// filter: correlate each sample with its own filter. Products are added in the order of the taps; each addition rounds (filter_kernels.py).
// Macros: IN, OUT element types; WIDE, CHANNELS: width of all filters and channels of all samples, for bytes; without them they may differ.
#include "borders.cuh"
#include "filter.py"

#ifdef WIDE
#define EACH 8                                 // elements of a row that a thread computes
#define SPAN (EACH + (WIDE - 1) * CHANNELS)    // bytes of a row of the input that they read
#define WORDS ((SPAN + 3) / 4)

// SPAN bytes as floats. Only aligned words that contain at least one of the bytes are read.
DEVICE void load_span(int64 address, float32 *value) {
    const int64 word = address & -4ll;
    const int32 within = (int32)(address & 3), count = (within + SPAN + 3) / 4;
    uint32 given[WORDS + 1];
    #pragma unroll
    for (int32 k = 0; k <= WORDS; ++k) given[k] = k < count ? word_at(word + 4 * k) : 0;
    #pragma unroll
    for (int32 k = 0; k < WORDS; ++k) {
        const uint32 bytes = __funnelshift_r(given[k], given[k + 1], 8 * within);
        #pragma unroll
        for (int32 j = 0; j < 4; ++j) {
            if (4 * k + j < SPAN) value[4 * k + j] = __uint_as_float(__byte_perm(bytes, 0x4b000000u, 0x7440u | j)) - 8388608.0f;
        }
    }
}

// Add the products of a row of a filter.
DEVICE void add_row(int64 line, const float32 *weights, bool first, float32 *total) {
    float32 value[SPAN];
    load_span(line, value);
    #pragma unroll
    for (int32 dx = 0; dx < WIDE; ++dx) {
        const float32 weight = weights[dx];
        #pragma unroll
        for (int32 k = 0; k < EACH; ++k) {
            const float32 part = weight * value[k + dx * CHANNELS];
            total[k] = dx == 0 && first ? part : total[k] + part;
        }
    }
}
#else
#define EACH PACK
#endif

// Add the products of a row of a filter with a number.
DEVICE void add_filled(float32 fill, const float32 *weights, int32 wide, bool first, float32 *total) {
    for (int32 dx = 0; dx < wide; ++dx) {
        const float32 part = weights[dx] * fill;
        #pragma unroll
        for (int32 k = 0; k < EACH; ++k) total[k] = dx == 0 && first ? part : total[k] + part;
    }
}

// A sample, and the extents that its loops use.
struct Filtered {
    const IN *source;
    const float32 *weights;
    OUT *out;
    const int64 *r;
    float32 fill;
    int32 border;

    DEVICE_MEMBER void begin(const int64 *context, int64 sample) {
        r = array<int64>(context, CORRELATE_RECORDS) + CORRELATE_RECORD_WORDS * sample;
        source = at<const IN>(address(context, CORRELATE_INPUTS, sample)), out = at<OUT>(address(context, CORRELATE_OUTPUTS, sample));
        weights = at<const float32>(address(context, CORRELATE_FILTERS, sample)), border = (int32)context[CORRELATE_BORDER];
        fill = context[CORRELATE_FILLS] ? real(value_of(*at<const IN>(address(context, CORRELATE_FILLS, sample)))) : 0;
    }
};

// A row of the output: its place, and where the input's rows that it reads begin.
struct Line {
    int64 y, z, plane, out, corner, pitch, rows, levels;  // `pitch`: bytes of a row of the input; `rows`, `levels`: its height and depth
    int64 down, deep;         // the first row and level of the input that the filter covers; they may lie outside
    int64 width, begin, end;  // elements of the row, and those that groups of EACH compute: all columns of their filter are in the input
    int32 depth, height;      // of the filter

    DEVICE_MEMBER void find(const Filtered &a, int64 row) {
        const int64 *r = a.r;
        const int64 channels = r[CORRELATE_RECORD_CHANNELS], elements = r[CORRELATE_RECORD_IN_WIDTH] * channels;
        plane = row, y = take(plane, r[CORRELATE_RECORD_OUT_HEIGHT]), z = take(plane, r[CORRELATE_RECORD_OUT_DEPTH]);
        down = y - r[CORRELATE_RECORD_ANCHOR_HEIGHT], deep = z - r[CORRELATE_RECORD_ANCHOR_DEPTH];
        depth = (int32)r[CORRELATE_RECORD_FILTER_DEPTH], height = (int32)r[CORRELATE_RECORD_FILTER_HEIGHT];
        rows = r[CORRELATE_RECORD_IN_HEIGHT], levels = r[CORRELATE_RECORD_IN_DEPTH];
        const int64 before = r[CORRELATE_RECORD_ANCHOR_WIDTH] * channels, most = elements - (r[CORRELATE_RECORD_FILTER_WIDTH] - 1) * channels;
        width = r[CORRELATE_RECORD_OUT_WIDTH] * channels, pitch = elements * (int64)sizeof(IN);
        corner = (int64)a.source + plane * levels * rows * pitch - before * (int64)sizeof(IN);
        out = (int64)(a.out + row * width);
        begin = before + (-(before + behind_pack<OUT>(out)) & (PACK - 1));  // the first one at a pack of memory
        end = begin + larger(smaller(width, most + before) - begin, (int64)0) / EACH * EACH;
        if (begin >= width) begin = end = 0;
    }
    // Where the first column of a row of the filter lies for element 0; 0: the row is filled.
    DEVICE_MEMBER int64 line(int32 dz, int32 dy, int32 border) const {
        int64 level = deep + dz, row = down + dy;
        if ((uint64)level >= (uint64)levels) level = inside(level, levels, border);
        if ((uint64)row >= (uint64)rows) row = inside(row, rows, border);
        return level < 0 || row < 0 ? 0 : corner + (level * rows + row) * pitch;
    }
};

// Element `i` of a row, anywhere.
APART OUT anywhere(const Filtered *a, const Line *row, int64 i) {
    const int64 *r = a->r;
    const int64 plane = row->plane, z = row->z, y = row->y;
    const int64 channels = r[CORRELATE_RECORD_CHANNELS], x = i / channels, channel = i % channels;
    float32 total = 0;
    int64 tap = 0;
    for (int64 dz = 0; dz < r[CORRELATE_RECORD_FILTER_DEPTH]; ++dz) {
        const int64 from_z = inside(z + dz - r[CORRELATE_RECORD_ANCHOR_DEPTH], r[CORRELATE_RECORD_IN_DEPTH], a->border);
        for (int64 dy = 0; dy < r[CORRELATE_RECORD_FILTER_HEIGHT]; ++dy) {
            const int64 from_y = inside(y + dy - r[CORRELATE_RECORD_ANCHOR_HEIGHT], r[CORRELATE_RECORD_IN_HEIGHT], a->border);
            const IN *line = a->source + ((plane * r[CORRELATE_RECORD_IN_DEPTH] + from_z) * r[CORRELATE_RECORD_IN_HEIGHT] + from_y) * r[CORRELATE_RECORD_IN_WIDTH] * channels + channel;
            for (int64 dx = 0; dx < r[CORRELATE_RECORD_FILTER_WIDTH]; ++dx, ++tap) {
                const int64 from_x = inside(x + dx - r[CORRELATE_RECORD_ANCHOR_WIDTH], r[CORRELATE_RECORD_IN_WIDTH], a->border);
                const bool known = from_z >= 0 && from_y >= 0 && from_x >= 0;
                const float32 part = a->weights[tap] * (known ? real(value_of(line[from_x * channels])) : a->fill);
                total = tap ? total + part : part;
            }
        }
    }
    return convert<OUT>(total);
}

// The elements of a row that are not in groups, one per thread of a warp. A thread of the loop over groups would keep its block waiting.
APART void beside(const Filtered *a, int64 number) {
    Line row;
    row.find(*a, number);
    for (int64 k = threadIdx.x % 32; k < row.width - (row.end - row.begin); k += 32) {
        const int64 i = k < row.begin ? k : k + row.end - row.begin;
        at<OUT>(row.out)[i] = anywhere(a, &row, i);
    }
}

// A thread computes EACH neighbouring elements of a row, which read the same rows of the input.
KERNEL_OF(3) correlate(const int64 *context) {
    __shared__ Filtered a;
    __shared__ Line lines[MOST_ROWS];  // in shared memory, so that the loops have registers left
    FOR_SAMPLES(sample, context[CORRELATE_SAMPLES]) {
        __syncthreads();
        if (threadIdx.x == 0) a.begin(context, sample);
        __syncthreads();
        const int64 rows = a.r[CORRELATE_RECORD_PLANES] * a.r[CORRELATE_RECORD_OUT_DEPTH] * a.r[CORRELATE_RECORD_OUT_HEIGHT];
        const int32 lanes = lanes_of(a.r[CORRELATE_RECORD_OUT_WIDTH] * a.r[CORRELATE_RECORD_CHANNELS] / EACH + 1);
#ifdef WIDE
        const int32 wide = WIDE;
#else
        const int32 channels = (int32)a.r[CORRELATE_RECORD_CHANNELS], wide = (int32)a.r[CORRELATE_RECORD_FILTER_WIDTH];
#endif
        FOR_ROWS_TOGETHER(first, rows, lanes) {
            Line &row = lines[threadIdx.x / lanes];
            const int64 number = first + threadIdx.x / lanes;
            __syncthreads();
            if (threadIdx.x % lanes == 0 && number < rows) row.find(a, number);
            __syncthreads();
            if (number >= rows) continue;
            const int32 lane = threadIdx.x & (lanes - 1);
            for (int64 i = row.begin + EACH * (int64)lane; i < row.end; i += EACH * lanes) {
                const float32 *weight = a.weights;
                float32 total[EACH];
                for (int32 dz = 0; dz < row.depth; ++dz) {
                    for (int32 dy = 0; dy < row.height; ++dy, weight += wide) {
                        const int64 begin = row.line(dz, dy, a.border), line = begin + i * (int64)sizeof(IN);
                        const bool first = dz == 0 && dy == 0;
                        if (!begin) {
                            add_filled(a.fill, weight, wide, first, total);
                            continue;
                        }
#ifdef WIDE
                        add_row(line, weight, first, total);
#else
                        #pragma unroll 1
                        for (int32 dx = 0; dx < wide; ++dx) {
                            const Pack<IN> tap = row_pack<IN>(line, 1, dx * channels, dx * channels + PACK);
                            #pragma unroll
                            for (int32 k = 0; k < PACK; ++k) {
                                const float32 part = weight[dx] * real(value_of(tap.element[k]));
                                total[k] = first && dx == 0 ? part : total[k] + part;
                            }
                        }
#endif
                    }
                }
                #pragma unroll
                for (int32 begin = 0; begin < EACH; begin += PACK) {
                    Pack<OUT> made;
                    #pragma unroll
                    for (int32 k = 0; k < PACK; ++k) made.element[k] = convert<OUT>(total[begin + k]);
                    put(row.out, i + begin, row.width, made);
                }
            }
        }
        for (int64 number = (int64)blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32; number < rows; number += (int64)gridDim.x * (blockDim.x / 32)) {
            beside(&a, number);
        }
    }
}
