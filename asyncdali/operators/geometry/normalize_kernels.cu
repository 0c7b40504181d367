// crop_mirror_normalize: window, mirror, (x - mean) * multiplier, type and layout. The table is that of normalize_kernels.py, then 7 samples,
// 8 the table of resize_kernels.cu if the input is resized here. Macros: IN, OUT element types; RESIZED: the input is a picture that is resized
// where it is read, from elements of RESIZED_IN with CHANNELS.
#if RESIZED
#define RESIDENT 4
#endif
#include "kernel.cuh"
#if RESIZED
#include "resize.cuh"
#endif

// What a sample's record says, taken apart.
struct Window {
    const int64 *r;
    const float32 *mean, *factor;
    int32 width, channels, out_channels, mirror, left, in_width;
    int64 out_step, out_plane;

    DEVICE_MEMBER void look_up(const int64 *context, int64 sample) {
        r = array<int64>(context, 2) + 27 * sample;
        mean = array<float32>(context, 3) + context[6] * r[26];
        factor = array<float32>(context, 4) + context[6] * r[26];
        width = (int32)r[23], channels = (int32)r[14], out_channels = (int32)r[24], mirror = (int32)r[25];
        left = (int32)r[18], in_width = (int32)r[13];
        out_step = r[8], out_plane = r[9];
    }
    DEVICE_MEMBER bool has_plane(int64 z, int64 f) const { return z >= 0 && z < r[11] && f >= 0 && f < r[10]; }
    DEVICE_MEMBER int64 out_row(int64 y, int64 z, int64 f) const { return f * r[5] + z * r[6] + y * r[7]; }
};

#if RESIZED

struct NormalizePixels {
    int64 corner, plane;
    int32 line, step;
    float32 mean[GROUP], factor[GROUP];

    struct Column {
        int64 place, plane;
        int32 line;
        float32 mean[GROUP], factor[GROUP];
        DEVICE_MEMBER void operator()(const float32 *total) {
            int64 at_channel = place;
            for (int32 c = 0; c < GROUP; ++c, at_channel += plane) {
                *at<OUT>(at_channel) = convert<OUT>((meant<IN>(total[c]) - mean[c]) * factor[c]);
            }
            place += line;
        }
    };
    DEVICE_MEMBER Column column(int32 number) const {
        Column made = {corner + number * step, plane, line};
        for (int32 c = 0; c < GROUP; ++c) made.mean[c] = mean[c], made.factor[c] = factor[c];
        return made;
    }
};

// A tile of rows from `y` and columns from `x` (before mirroring) of the output: what the picture has of it, resized, and fills.
DEVICE void resized_window(
    const Window &window, const ResizedPicture<RESIZED_IN> &picture, const RESIZED_IN *source, const OUT *fills, int64 out, int32 y, int32 rows,
    int32 x, int32 columns, bool found
) {
    const int32 in_height = (int32)window.r[12], from_y = y + (int32)window.r[17], from_x = x + window.left;
    const int32 top = found ? smaller(larger(-from_y, 0), rows) : rows, bottom = larger(smaller(rows, in_height - from_y), top);
    const int32 left = smaller(larger(-from_x, 0), columns), right = larger(smaller(columns, window.in_width - from_x), left);
    // Positions in the tile as positions in the output.
    const int64 step = window.mirror ? -window.out_step : window.out_step, line = window.r[7];
    const int64 corner = out + (window.mirror ? window.width - 1 - x : x) * window.out_step;
    const int32 lanes = lanes_of(columns);
    const bool whole = bottom - top == rows && right - left == columns;
    if (!whole || window.out_channels > GROUP) {
        for (int32 row = threadIdx.x / lanes; row < rows; row += blockDim.x / lanes) {
            FOR_COLUMNS(column, columns, lanes) {
                const bool made = row >= top && row < bottom && column >= left && column < right;
                const int64 place = corner + row * line + column * step;
                for (int32 c = made ? GROUP : 0; c < window.out_channels; ++c) *at<OUT>(place + c * window.out_plane) = fills[c];
            }
        }
    }
    if (bottom > top && right > left) {
        __shared__ NormalizePixels normalize;
        __shared__ Tile<RESIZED_IN> part;
        if (threadIdx.x == 0) {
            normalize.corner = corner + top * line + left * step, normalize.plane = window.out_plane;
            normalize.line = (int32)line, normalize.step = (int32)step;
            for (int32 c = 0; c < GROUP; ++c) normalize.mean[c] = window.mean[c], normalize.factor[c] = window.factor[c];
            part.source = source, part.y = from_y + top, part.rows = bottom - top, part.x = from_x + left, part.columns = right - left;
        }
        resized_tile(picture, part, normalize);
    }
}

#endif

KERNEL crop_mirror_normalize(const int64 *context) {
    const OUT *fills = array<OUT>(context, 5);
    FOR_SAMPLES(sample, context[7]) {
#if RESIZED
        __shared__ Window window;
        __shared__ ResizedPicture<RESIZED_IN> picture;
        if (threadIdx.x == 0) {
            window.look_up(context, sample);
            picture.look_up(context + 8, sample);
        }
        __syncthreads();
        const int64 *r = window.r;
        const int32 tile_columns = picture.tile_columns;
        const int32 tiles_x = (window.width + tile_columns - 1) / tile_columns, tiles_y = (int32)((r[22] + TILE_ROWS - 1) / TILE_ROWS);
        const int32 tiles = (int32)(r[20] * r[21]) * tiles_y * tiles_x;
        for (int32 tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
            int32 x = 0, y = tile * TILE_ROWS, z = 0, f = 0;
            if (tiles != tiles_y) {  // more than one plane, or several tiles beside each other
                x = tile % tiles_x * tile_columns;
                const int32 plane = tile / tiles_x / tiles_y;
                y = tile / tiles_x % tiles_y * TILE_ROWS, z = plane % (int32)r[21], f = plane / (int32)r[21];
            }
            const int64 from_z = z + r[16], from_f = f + r[15];
            const int32 rows = smaller((int32)TILE_ROWS, (int32)r[22] - y), columns = smaller(tile_columns, window.width - x);
            const bool found = window.has_plane(from_z, from_f);
            const RESIZED_IN *source = picture.plane(found ? from_f * r[11] + from_z : 0);
            resized_window(window, picture, source, fills, address(context, 1, sample) + window.out_row(y, z, f), y, rows, x, columns, found);
        }
        __syncthreads();
#else
        Window window;
        window.look_up(context, sample);
        const int64 *r = window.r;
        const int32 width = window.width, lanes = lanes_of(width);
        const int64 in_step = r[3], in_plane = r[4];
        FOR_ROWS(row, r[20] * r[21] * r[22], lanes) {
            int64 rest = row;
            const int64 y = take(rest, r[22]), z = take(rest, r[21]), f = rest;
            const int64 from_y = y + r[17], from_z = z + r[16], from_f = f + r[15];
            const int64 to = address(context, 1, sample) + window.out_row(y, z, f);
            const bool inside = from_y >= 0 && from_y < r[12] && window.has_plane(from_z, from_f);
            const int64 line = address(context, 0, sample) + from_f * r[0] + from_z * r[1] + from_y * r[2];
            FOR_COLUMNS(x, width, lanes) {
                const int32 from_x = (window.mirror ? width - 1 - x : x) + window.left;
                const bool found = inside && from_x >= 0 && from_x < window.in_width;
                const int64 place = to + x * window.out_step;
                for (int32 c = 0; c < window.out_channels; ++c) {
                    OUT value = fills[c];
                    if (found && c < window.channels) {
                        const IN element = *at<const IN>(line + from_x * in_step + c * in_plane);
                        value = convert<OUT>(((float32)value_of(element) - window.mean[c]) * window.factor[c]);
                    }
                    *at<OUT>(place + c * window.out_plane) = value;
                }
            }
        }
#endif
    }
}
