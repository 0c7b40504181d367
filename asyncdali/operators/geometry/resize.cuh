// Pixels of a resized picture, for the kernel that stores them and for those that compute what they need. CHANNELS: all samples have that
// many (1 to 4); 0: they differ.
//
// A block makes a tile of the output: first it blends rows of the source into rows of floats between the passes, some source columns to a
// thread, each source row read and converted once; then it blends columns of these, an output column to each thread of a warp. Sums have the
// order of the compiled step.

enum { GROUP = CHANNELS ? CHANNELS : 4, TILE_ROWS = 8, SPAN = 1472, RING = 5, WORD = 4 };

// The integer nearest to a float, of two the even one, saturated, as a float: adding 1.5 * 2**23 leaves it in the low bits.
template <class T> DEVICE float32 rounded(float32 value) {
    return (fminf(fmaxf(value, (float32)lowest<T>()), (float32)highest<T>()) + 12582912.0f) - 12582912.0f;
}

// float32 to an element, and what that means.
template <class T> DEVICE T stored(float32 value) {
    if constexpr (Kind<T>::is_float) return (T)value;
    else return (T)rounded<T>(value);
}
template <class T> DEVICE float32 meant(float32 value) {
    if constexpr (Kind<T>::is_float) return (float32)(T)value;
    else return rounded<T>(value);
}

// The resized picture of a sample. The table is that of resize_kernels.cu. For tiles it lies in shared memory: registers are scarce.
template <class T> struct ResizedPicture {
    const T *source;
    const int32 *first_y, *first_x;
    const float32 *wy, *wx;
    int64 plane_size;
    int32 channels, row_size, taps_y, taps_x, tile_columns;
    bool tiled;

    DEVICE_MEMBER void look_up(const int64 *context, int64 sample) {
        const int64 *record = array<int64>(context, 2) + 11 * sample, *axes = array<int64>(context, 6) + 9 * sample;
        const float64 *interval = array<float64>(context, 3) + 6 * sample + 4;
        const float32 *weights = array<float32>(context, 7);
        const int32 *firsts = array<int32>(context, 7);
        channels = CHANNELS ? CHANNELS : (int32)record[4];
        row_size = (int32)record[3] * channels;
        plane_size = record[2] * row_size;
        taps_y = (int32)axes[5], taps_x = (int32)axes[8];
        source = at<const T>(address(context, 0, sample));
        first_y = firsts + axes[3], first_x = firsts + axes[6];
        wy = weights + axes[4], wx = weights + axes[7];
        choose_tile((int32)record[7], interval[0], interval[1]);
    }

    // Columns whose sources fit between the passes; a multiple of a warp's threads where that can be.
    DEVICE_MEMBER void choose_tile(int32 width, float64 lo, float64 hi) {
        const float32 step = (float32)(hi < lo ? lo - hi : hi - lo) / (float32)larger(width, 1);
        const int32 room = (int32)SPAN / GROUP - taps_x - 2;
        tiled = CHANNELS && room >= 0;
        if (!tiled) {
            tile_columns = 32;
            return;
        }
        tile_columns = (int32)smaller((float32)room / larger(step, 1e-6f), (float32)larger(width - 1, 0)) + 1;
        if (tile_columns > 32 && tile_columns < width) {
            const int32 tiles = (width + tile_columns - 1) / tile_columns;
            tile_columns = smaller(((width + tiles - 1) / tiles + 31) & ~31, tile_columns & ~31);
        }
    }

    // One plane: a frame, or a leading channel.
    DEVICE_MEMBER const T *plane(int64 number) const { return source + number * plane_size; }

    // `used` channels from channel `c` of the pixel at (x, y): where tiles cannot be.
    DEVICE_MEMBER void pixel(const T *from, int32 x, int32 y, int32 c, int32 used, float32 *total) const {
        const T *corner = from + (int64)first_y[y] * row_size + first_x[x] * channels + c;
        const float32 *across = wx + (int64)x * taps_x, *along = wy + (int64)y * taps_y;
        for (int32 k = 0; k < GROUP; ++k) total[k] = 0;
#pragma unroll 1
        for (int32 kx = 0; kx < taps_x; ++kx, corner += channels) {
            float32 column[GROUP];
            for (int32 k = 0; k < GROUP; ++k) column[k] = 0;
            const T *at_row = corner;
#pragma unroll 1
            for (int32 ky = 0; ky < taps_y; ++ky, at_row += row_size) {
                for (int32 k = 0; k < GROUP; ++k) {
                    if (CHANNELS || k < used) column[k] = fmaf(along[ky], real(at_row[k]), column[k]);
                }
            }
            for (int32 k = 0; k < GROUP; ++k) total[k] = fmaf(across[kx], column[k], total[k]);
        }
    }
};

#if CHANNELS

struct alignas(16) Word { float32 part[WORD]; };

// WORD elements of a row, of which `valid` exist: loaded first, floats when they are needed.
template <class T> struct Loaded {
    T element[WORD];

    DEVICE_MEMBER void load(const T *from, int32 valid) {
        for (int32 c = 0; c < WORD; ++c) element[c] = c < valid ? from[c] : (T)0;
    }
    DEVICE_MEMBER void floats(const T *, float32 *to) const {
        for (int32 c = 0; c < WORD; ++c) to[c] = real(element[c]);
    }
};
#ifndef HOST_BUILD
// Bytes: by words of the memory, of which none without a valid byte is touched.
template <> struct Loaded<uint8> {
    uint32 low, high;

    static DEVICE_MEMBER uint32 skipped(const uint8 *from) { return (uint32)reinterpret_cast<uint64>(from) & 3; }
    DEVICE_MEMBER void load(const uint8 *from, int32 valid) {
        const uint32 *words = reinterpret_cast<const uint32 *>(from - skipped(from));
        low = __ldg(words);
        high = (int32)skipped(from) + valid > WORD ? __ldg(words + 1) : 0;
    }
    DEVICE_MEMBER void floats(const uint8 *from, float32 *to) const {
        const uint32 bytes = __funnelshift_r(low, high, 8 * skipped(from));
        for (int32 c = 0; c < WORD; ++c) to[c] = __uint_as_float(__byte_perm(bytes, 0x4b000000u, 0x7650 + c)) - 8388608.0f;
    }
};
#endif

// A part of the output, of at most TILE_ROWS rows and picture.tile_columns columns; in shared memory.
template <class T> struct Tile {
    const T *source;
    int32 y, rows, x, columns;
    // What its rows need: when the last of their source rows has been read (counted from the first of them all), and their weights.
    int32 due[TILE_ROWS + 1];
    float32 weight[TILE_ROWS][RING];
    const T *from;
    int32 begin, count;  // source columns (pixels; elements)
    bool upwards;

    DEVICE_MEMBER void look_up(const ResizedPicture<T> &picture) {
        const int32 left = picture.first_x[x], right = picture.first_x[x + columns - 1];
        const int32 top = picture.first_y[y], bottom = picture.first_y[y + rows - 1], first = smaller(top, bottom);
        begin = smaller(left, right), count = (larger(left, right) + picture.taps_x - begin) * GROUP;
        upwards = bottom < top;
        from = source + (int64)first * picture.row_size + begin * GROUP;
    }
    DEVICE_MEMBER void look_up_row(const ResizedPicture<T> &picture, int32 row) {
        const int32 at_y = y + (upwards ? rows - 1 - row : row), taps = picture.taps_y;
        if (row == 0) due[rows] = -1;
        due[row] = picture.first_y[at_y] - smaller(picture.first_y[y], picture.first_y[y + rows - 1]) + taps - 1;
        for (int32 k = 0; k < taps; ++k) weight[row][k] = picture.wy[at_y * taps + k];
    }
};

// The tile's source columns, blended along y, into `between`. The last TAPS source rows are in `ring`.
template <int TAPS, class T> DEVICE void blend_rows(const ResizedPicture<T> &picture, const Tile<T> &tile, Word *between) {
    const int32 last = tile.due[tile.rows - 1], row_size = picture.row_size, step = tile.upwards ? -(SPAN / WORD) : SPAN / WORD;
    for (int32 word = threadIdx.x; word * WORD < tile.count; word += blockDim.x) {
        float32 ring[TAPS][WORD];
        const T *next = tile.from + word * WORD;
        const int32 valid = smaller(tile.count - word * WORD, (int32)WORD);
        int32 row = 0, due = tile.due[0], to = (tile.upwards ? tile.rows - 1 : 0) * (SPAN / WORD) + word;
        Loaded<T> ahead;
        ahead.load(next, valid);
#pragma unroll 1
        for (int32 begin = 0; begin <= last; begin += TAPS) {
#pragma unroll
            for (int32 j = 0; j < TAPS; ++j) {
                if (begin + j > last) break;
                ahead.floats(next, ring[j]);
                next += row_size;
                if (begin + j < last) ahead.load(next, valid);
#pragma unroll 1
                while (due == begin + j) {
                    Word sum = {};
#pragma unroll
                    for (int32 k = 0; k < TAPS; ++k) {
                        const float32 weight = tile.weight[row][k];
                        for (int32 c = 0; c < WORD; ++c) sum.part[c] = fmaf(weight, ring[(j + 1 + k) % TAPS][c], sum.part[c]);
                    }
                    between[to] = sum;
                    to += step;
                    due = tile.due[++row];
                }
            }
        }
    }
}

// The same for many taps.
template <class T> DEVICE void blend_many_rows(const ResizedPicture<T> &picture, const Tile<T> &tile, Word *between) {
    for (int32 word = threadIdx.x; word * WORD < tile.count; word += blockDim.x) {
        for (int32 row = 0; row < tile.rows; ++row) {
            const T *from = tile.source + (int64)picture.first_y[tile.y + row] * picture.row_size + tile.begin * GROUP + word * WORD;
            const float32 *weight = picture.wy + (int64)(tile.y + row) * picture.taps_y;
            Word sum = {};
            float32 part[WORD];
#pragma unroll 1
            for (int32 k = 0; k < picture.taps_y; ++k, from += picture.row_size) {
                Loaded<T> loaded;
                loaded.load(from, smaller(tile.count - word * WORD, (int32)WORD));
                loaded.floats(from, part);
                for (int32 c = 0; c < WORD; ++c) sum.part[c] = fmaf(weight[k], part[c], sum.part[c]);
            }
            between[row * (SPAN / WORD) + word] = sum;
        }
    }
}

// Pixels of the tile from what is `between`; a warp takes 32 columns. emit.column(column) gives what makes the pixels of one: it is called with
// the channels of one row after another. `emit` lies in shared memory until here, because registers are scarce before. TAPS 0: any number.
template <int TAPS, class T, class Emit>
DEVICE void blend_columns(const ResizedPicture<T> &picture, const Tile<T> &tile, const Word *between, const Emit &emit) {
    for (int32 column = threadIdx.x; column < tile.columns; column += blockDim.x) {
        const int32 x = tile.x + column;
        const float32 *weight = picture.wx + x * picture.taps_x, *from = between[0].part + (picture.first_x[x] - tile.begin) * GROUP;
        float32 weights[TAPS ? TAPS : 1];
        for (int32 k = 0; k < TAPS; ++k) weights[k] = weight[k];
        auto pixel = emit.column(column);
#pragma unroll 1
        for (int32 row = 0; row < tile.rows; ++row, from += SPAN) {
            float32 total[GROUP];
            for (int32 c = 0; c < GROUP; ++c) total[c] = 0;
            if (TAPS) {
#pragma unroll
                for (int32 k = 0; k < TAPS; ++k) {
                    for (int32 c = 0; c < GROUP; ++c) total[c] = fmaf(weights[k], from[k * GROUP + c], total[c]);
                }
            } else {
#pragma unroll 1
                for (int32 k = 0; k < picture.taps_x; ++k) {
                    for (int32 c = 0; c < GROUP; ++c) total[c] = fmaf(weight[k], from[k * GROUP + c], total[c]);
                }
            }
            pixel(total);
        }
    }
}

// All pixels of the tile (see blend_columns). All threads of a block come here, with `picture`, the first line of
// `tile` and `emit` set by the first of them.
template <class T, class Emit> DEVICE void resized_tile(const ResizedPicture<T> &picture, Tile<T> &tile, const Emit &emit) {
    __shared__ Word between[TILE_ROWS * SPAN / WORD];
    __syncthreads();
    if (!picture.tiled) {
        for (int32 column = threadIdx.x; column < tile.columns; column += blockDim.x) {
            auto pixel = emit.column(column);
            for (int32 row = 0; row < tile.rows; ++row) {
                float32 total[GROUP];
                picture.pixel(tile.source, tile.x + column, tile.y + row, 0, GROUP, total);
                pixel(total);
            }
        }
        __syncthreads();
        return;
    }
    if (threadIdx.x == 0) tile.look_up(picture);
    __syncthreads();
    const int32 taps = picture.taps_y;
    if (taps <= RING) {
        if ((int32)threadIdx.x < tile.rows) tile.look_up_row(picture, threadIdx.x);
        __syncthreads();
    }
    if (taps == 1) blend_rows<1>(picture, tile, between);
    else if (taps == 2) blend_rows<2>(picture, tile, between);
    else if (taps == 3) blend_rows<3>(picture, tile, between);
    else if (taps == 4) blend_rows<4>(picture, tile, between);
    else if (taps == 5) blend_rows<5>(picture, tile, between);
    else blend_many_rows(picture, tile, between);
    __syncthreads();
    const int32 across = picture.taps_x;
    if (across == 1) blend_columns<1>(picture, tile, between, emit);
    else if (across == 2) blend_columns<2>(picture, tile, between, emit);
    else if (across == 3) blend_columns<3>(picture, tile, between, emit);
    else if (across == 4) blend_columns<4>(picture, tile, between, emit);
    else if (across == 5) blend_columns<5>(picture, tile, between, emit);
    else blend_columns<0>(picture, tile, between, emit);
    __syncthreads();
}

#endif
