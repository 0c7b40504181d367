// Pixels of a resized picture, for the kernel that stores them and for those that compute what they need. CHANNELS: all samples have that
// many (1 to 4); 0: they differ.

enum { GROUP = CHANNELS ? CHANNELS : 4 };

// float32 to an element: rounded half to even, saturated.
template <class T> DEVICE T stored(float32 value) {
    if constexpr (Kind<T>::is_float) return (T)value;
    else return (T)rintf(smaller(larger(value, (float32)lowest<T>()), (float32)highest<T>()));
}

// One row of the output. The table is that of resize_kernels.cu.
template <class T> struct ResizedRow {
    const T *line;
    const int32 *first;
    const float32 *wy, *wx;
    int32 channels, row_size, taps_y, taps_x;

    DEVICE_MEMBER ResizedRow(const int64 *context, int64 sample, int64 plane, int32 y) {
        const int64 *record = array<int64>(context, 2) + 11 * sample, *axes = array<int64>(context, 6) + 9 * sample;
        const float32 *weights = array<float32>(context, 7);
        const int32 *firsts = array<int32>(context, 7);
        channels = CHANNELS ? CHANNELS : (int32)record[4];
        row_size = (int32)record[3] * channels;
        taps_y = (int32)axes[5], taps_x = (int32)axes[8];
        line = at<const T>(address(context, 0, sample)) + (plane * record[2] + firsts[axes[3] + y]) * row_size;
        wy = weights + axes[4] + (int64)y * taps_y, wx = weights + axes[7];
        first = firsts + axes[6];
    }

    // `used` channels from channel `c` of the pixel at `x`. Rows are blended before columns, as in the compiled step.
    DEVICE_MEMBER void pixel(int32 x, int32 c, int32 used, float32 *total) const {
        const T *corner = line + first[x] * channels + c;
        const float32 *weight = wx + x * taps_x;
        for (int32 k = 0; k < GROUP; ++k) total[k] = 0;
        for (int32 kx = 0; kx < taps_x; ++kx, corner += channels) {
            float32 column[GROUP];
            for (int32 k = 0; k < GROUP; ++k) column[k] = 0;
            const T *source = corner;
            for (int32 ky = 0; ky < taps_y; ++ky, source += row_size) {
                for (int32 k = 0; k < GROUP; ++k) {
                    if (CHANNELS || k < used) column[k] = fmaf(wy[ky], real(source[k]), column[k]);
                }
            }
            for (int32 k = 0; k < GROUP; ++k) total[k] = fmaf(weight[kx], column[k], total[k]);
        }
    }
};
