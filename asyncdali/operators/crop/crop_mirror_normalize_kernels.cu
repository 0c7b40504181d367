// crop_mirror_normalize: crop, mirror, compute (x - mean) * multiplier, convert the type, and change the layout.
// Macros: IN, OUT element types; RESIZED 1: this kernel also resizes its input. Then the table RESIZE_CUDA (resize_tables.py) follows the
// operator's own table, and three more macros are set. RESIZED_IN: element type of the picture before resizing; CHANNELS: its number of
// channels; SIGNED 1: weights may be negative.
#if RESIZED
#define RESIDENT 4
#endif
#include "window.cuh"
#if RESIZED
#include "../resize/resize_tables.py"
#include "../resize/resize.cuh"
#endif

#if RESIZED

// Normalize a resized element. Bytes have 256 values, so a block first computes the results for all of them.
struct Normal {
    static const bool FEW_ELEMENTS = Same<IN, uint8>::value && GROUP * sizeof(OUT) <= 12;
    float32 mean[GROUP], factor[GROUP];
    OUT answer[FEW_ELEMENTS ? GROUP : 1][256];

    DEVICE_MEMBER void look_up(const Window &window) {
        for (int32 c = 0; c < GROUP; ++c) {
            if (FEW_ELEMENTS) {
                for (int32 i = threadIdx.x; i < 256; i += blockDim.x) {
                    answer[c][i] = convert<OUT>(((float32)i - window.mean[c]) * window.factor[c]);
                }
            } else if (threadIdx.x == 0) {
                mean[c] = window.mean[c], factor[c] = window.factor[c];
            }
        }
    }
    DEVICE_MEMBER OUT operator()(float32 total, int32 c) const {
        if constexpr (FEW_ELEMENTS) return answer[c][byte(total)];
        else return convert<OUT>((meant<IN>(total) - mean[c]) * factor[c]);
    }
};

struct NormalizePixels {
    const Normal *normal;
    int64 corner, plane;
    int32 line, step;

    struct Column {
        const Normal *normal;
        int64 place, plane;
        int32 line;
        DEVICE_MEMBER void operator()(const float32 *total) {
            int64 at_channel = place;
            for (int32 c = 0; c < GROUP; ++c, at_channel += plane) *at<OUT>(at_channel) = (*normal)(total[c], c);
            place += line;
        }
        DEVICE_MEMBER void skip(int32 rows) { place += (int64)rows * line; }
    };
    DEVICE_MEMBER Column column(int32 number) const { return {normal, corner + number * step, plane, line}; }
};

// A tile of output rows and columns, before mirroring. The tile has a part inside the picture, and fill values around that part.
struct WindowTile {
    NormalizePixels picture;
    int64 corner, line, step;
    int32 rows, columns, top, bottom, left, right;

    // Begin the tile at row `y` and column `x`. Set `part` to the part of the resized picture inside the tile.
    DEVICE_MEMBER void look_up(const Window &window, int64 out, int32 y, int32 x, bool found, Tile<RESIZED_IN> &part) {
        const int32 from_y = y + (int32)window.r[WINDOW_ANCHOR_H], from_x = x + window.left;
        top = found ? smaller(larger(-from_y, 0), rows) : rows, bottom = larger(smaller(rows, (int32)window.r[WINDOW_IN_EXTENT_H] - from_y), top);
        left = smaller(larger(-from_x, 0), columns), right = larger(smaller(columns, window.in_width - from_x), left);
        step = window.mirror ? -window.out_step : window.out_step, line = window.r[WINDOW_OUT_STRIDE_H];
        corner = out + (window.mirror ? window.width - 1 - x : x) * window.out_step;
        part.y = from_y + top, part.rows = right > left ? bottom - top : 0, part.x = from_x + left, part.columns = right - left;
        picture.corner = corner + top * line + left * step, picture.plane = window.out_plane;
        picture.line = (int32)line, picture.step = (int32)step;
    }
    DEVICE_MEMBER auto column(int32 number) const { return picture.column(number); }
    DEVICE_MEMBER void fill(const Window &window, const OUT *fills) const {
        if (bottom - top == rows && right - left == columns && window.out_channels <= GROUP) return;
        const int32 lanes = lanes_of(columns);
        for (int32 row = threadIdx.x / lanes; row < rows; row += blockDim.x / lanes) {
            FOR_COLUMNS(column, columns, lanes) {
                const bool made = row >= top && row < bottom && column >= left && column < right;
                const int64 place = corner + row * line + column * step;
                for (int32 c = made ? GROUP : 0; c < window.out_channels; ++c) *at<OUT>(place + c * window.out_plane) = fills[c];
            }
        }
    }
};

#endif

KERNEL crop_mirror_normalize(const int64 *context) {
    const OUT *fills = array<OUT>(context, NORMALIZE_FILLS);
    FOR_SAMPLES(sample, context[NORMALIZE_SAMPLES]) {
#if RESIZED
        __shared__ Window window;
        __shared__ Normal normal;
        __shared__ ResizedPicture<RESIZED_IN> picture;
        if (threadIdx.x == 0) window.look_up(context, sample);
        if (threadIdx.x == WARP) picture.look_up(context + NORMALIZE_WORDS, sample);  // a second warp: both look-ups run in parallel
        __syncthreads();
        normal.look_up(window);
        const int64 *r = window.r;
        const int32 tile_columns = picture.tile_columns, tiles_x = (window.width + tile_columns - 1) / tile_columns;
        const int32 height = (int32)r[WINDOW_OUT_EXTENT_H], depth = (int32)r[WINDOW_OUT_EXTENT_D], tiles_y = (height + picture.tile_rows - 1) / picture.tile_rows;
        const auto find = [&](int32 tile, Tile<RESIZED_IN> &part, WindowTile &made) {
            const int32 x = tile % tiles_x * tile_columns, y = tile / tiles_x % tiles_y * picture.tile_rows, plane = tile / tiles_x / tiles_y;
            const int32 z = plane % depth, f = plane / depth;
            const int64 from_z = z + r[WINDOW_ANCHOR_D], from_f = f + r[WINDOW_ANCHOR_F];
            const bool found = window.has_plane(from_z, from_f);
            made.picture.normal = &normal;
            made.rows = smaller(picture.tile_rows, height - y), made.columns = smaller(tile_columns, window.width - x);
            part.source = picture.plane(found ? from_f * r[WINDOW_IN_EXTENT_D] + from_z : 0);
            made.look_up(window, address(context, NORMALIZE_OUTPUTS, sample) + window.out_row(y, z, f), y, x, found, part);
        };
        const auto fill = [&](const WindowTile &made) { made.fill(window, fills); };
        resized_tiles<WindowTile>(picture, (int32)r[WINDOW_OUT_EXTENT_F] * depth * tiles_y * tiles_x, find, fill);
#else
        Window window;
        window.look_up(context, sample);
        const int64 *r = window.r;
        const int32 width = window.width, lanes = lanes_of(width);
        const int64 in_step = r[WINDOW_IN_STRIDE_W], in_plane = r[WINDOW_IN_STRIDE_C];
        FOR_ROWS(row, r[WINDOW_OUT_EXTENT_F] * r[WINDOW_OUT_EXTENT_D] * r[WINDOW_OUT_EXTENT_H], lanes) {
            int64 rest = row;
            const int64 y = take(rest, r[WINDOW_OUT_EXTENT_H]), z = take(rest, r[WINDOW_OUT_EXTENT_D]), f = rest;
            const int64 from_y = y + r[WINDOW_ANCHOR_H], from_z = z + r[WINDOW_ANCHOR_D], from_f = f + r[WINDOW_ANCHOR_F];
            const int64 to = address(context, NORMALIZE_OUTPUTS, sample) + window.out_row(y, z, f);
            const bool inside = from_y >= 0 && from_y < r[WINDOW_IN_EXTENT_H] && window.has_plane(from_z, from_f);
            const int64 line = address(context, NORMALIZE_INPUTS, sample) + from_f * r[WINDOW_IN_STRIDE_F] + from_z * r[WINDOW_IN_STRIDE_D] + from_y * r[WINDOW_IN_STRIDE_H];
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
