// filter: correlate each sample with its own filter. Products are added in the order of the taps; each addition rounds (filter_kernels.py).
// Macros: IN, OUT element types.
#include "borders.cuh"
#include "filter.py"

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

// One element, anywhere: element `i` of the output's row (plane, z, y).
APART OUT anywhere(const Filtered *a, int64 plane, int64 z, int64 y, int64 i) {
    const int64 *r = a->r;
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

// Whether all positions that the filter reads from position `at` of an axis on are in the input.
DEVICE bool within(int64 at, int64 filter, int64 extent) { return at >= 0 && at + filter <= extent; }

// A thread computes packs of neighbouring elements of a row. Where the whole filter is in the input, all elements of a pack read the same
// rows of it, and a tap of all of them is a pack of the input.
KERNEL_OF(3) correlate(const int64 *context) {
    __shared__ Filtered a;
    FOR_SAMPLES(sample, context[CORRELATE_SAMPLES]) {
        __syncthreads();
        if (threadIdx.x == 0) a.begin(context, sample);
        __syncthreads();
        const int64 *r = a.r;
        const int32 channels = (int32)r[CORRELATE_RECORD_CHANNELS], depth = (int32)r[CORRELATE_RECORD_FILTER_DEPTH];
        const int32 height = (int32)r[CORRELATE_RECORD_FILTER_HEIGHT], wide = (int32)r[CORRELATE_RECORD_FILTER_WIDTH];
        const int64 width = r[CORRELATE_RECORD_OUT_WIDTH] * channels, pitch = r[CORRELATE_RECORD_IN_WIDTH] * channels;
        const int64 most = pitch - (int64)(wide - 1) * channels;  // elements of a row that the filter's first tap may read
        const int32 lanes = lanes_of(width / PACK + 1);
        FOR_ROWS(row, r[CORRELATE_RECORD_PLANES] * r[CORRELATE_RECORD_OUT_DEPTH] * r[CORRELATE_RECORD_OUT_HEIGHT], lanes) {
            int64 plane = row;
            const int64 y = take(plane, r[CORRELATE_RECORD_OUT_HEIGHT]), z = take(plane, r[CORRELATE_RECORD_OUT_DEPTH]);
            const int64 down = y - r[CORRELATE_RECORD_ANCHOR_HEIGHT], deep = z - r[CORRELATE_RECORD_ANCHOR_DEPTH];
            const bool rows_inside = within(down, height, r[CORRELATE_RECORD_IN_HEIGHT]) && within(deep, depth, r[CORRELATE_RECORD_IN_DEPTH]);
            const IN *corner = a.source + ((plane * r[CORRELATE_RECORD_IN_DEPTH] + deep) * r[CORRELATE_RECORD_IN_HEIGHT] + down) * pitch;
            const int64 out = (int64)(a.out + row * width), before = r[CORRELATE_RECORD_ANCHOR_WIDTH] * channels;
            for (int64 i = PACK * (int64)(threadIdx.x & (lanes - 1)) - behind_pack<OUT>(out); i < width; i += PACK * lanes) {
                if (!rows_inside || i < larger(before, (int64)0) || i - before + PACK > most || i + PACK > width) {
                    for (int64 k = larger(i, (int64)0); k < smaller(i + PACK, width); ++k) at<OUT>(out)[k] = anywhere(&a, plane, z, y, k);
                    continue;
                }
                const float32 *weight = a.weights;
                float32 total[PACK];
                for (int32 dz = 0; dz < depth; ++dz) {
                    for (int32 dy = 0; dy < height; ++dy) {
                        const int64 line = (int64)(corner + (dz * r[CORRELATE_RECORD_IN_HEIGHT] + dy) * pitch + i - before);
                        #pragma unroll 1
                        for (int32 dx = 0; dx < wide; ++dx, ++weight) {
                            const Pack<IN> tap = row_pack<IN>(line, 1, dx * channels, dx * channels + PACK);
                            #pragma unroll
                            for (int32 k = 0; k < PACK; ++k) {
                                const float32 part = *weight * real(value_of(tap.element[k]));
                                total[k] = weight == a.weights ? part : total[k] + part;
                            }
                        }
                    }
                }
                Pack<OUT> made;
                #pragma unroll
                for (int32 k = 0; k < PACK; ++k) made.element[k] = convert<OUT>(total[k]);
                put(out, i, width, made);
            }
        }
    }
}
