// The window of a sample, for all kernels of crop_mirror_normalize.
#include "kernel.cuh"
#include "crop_tables.py"

// The fields that are used for every row or pixel, loaded from a sample's record.
struct Window {
    const int64 *r;
    const float32 *mean, *factor;
    int32 width, channels, out_channels, mirror, left, in_width;
    int64 out_step, out_plane;

    DEVICE_MEMBER void look_up(const int64 *context, int64 sample) {
        r = array<int64>(context, NORMALIZE_RECORDS) + context[NORMALIZE_STEP] * sample;
        mean = array<float32>(context, NORMALIZE_MEANS) + context[NORMALIZE_CHANNELS] * r[WINDOW_ROW];
        factor = array<float32>(context, NORMALIZE_MULTIPLIERS) + context[NORMALIZE_CHANNELS] * r[WINDOW_ROW];
        width = (int32)r[WINDOW_OUT_EXTENT_W], channels = (int32)r[WINDOW_IN_EXTENT_C], out_channels = (int32)r[WINDOW_OUT_EXTENT_C];
        mirror = array<int64>(context, NORMALIZE_MIRRORS)[sample] != 0;
        left = (int32)r[WINDOW_ANCHOR_W], in_width = (int32)r[WINDOW_IN_EXTENT_W];
        out_step = r[WINDOW_OUT_STRIDE_W], out_plane = r[WINDOW_OUT_STRIDE_C];
    }
    DEVICE_MEMBER bool has_plane(int64 z, int64 f) const { return z >= 0 && z < r[WINDOW_IN_EXTENT_D] && f >= 0 && f < r[WINDOW_IN_EXTENT_F]; }
    DEVICE_MEMBER int64 out_row(int64 y, int64 z, int64 f) const { return f * r[WINDOW_OUT_STRIDE_F] + z * r[WINDOW_OUT_STRIDE_D] + y * r[WINDOW_OUT_STRIDE_H]; }
};
