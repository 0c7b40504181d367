// Pixels of a resized picture, for the kernel that stores them and for kernels that process them further.
// Macros: CHANNELS: number of channels of all samples (1 to 4), 0 if samples differ; SIGNED 1: weights may be negative.
//
// A block computes tiles of the output, one after another. The source rows of a tile are copied to shared memory while the previous tile
// is computed. Then each warp blends source rows into an intermediate row, one plane per channel. When all intermediate rows are complete,
// each thread blends their columns into an output column. Sums are added in the order of the compiled step.
//
// Where a picture becomes much smaller, many source rows make one output row, and staging memory holds few columns of them. Such pictures
// are not staged (`direct`): each thread blends 16 bytes of all source rows of an output row.

enum { GROUP = CHANNELS ? CHANNELS : 4, TILE_ROWS = 8, WARP = 32, QUAD = 4, SPAN = 960 / GROUP & ~3, ROOM = 14080, CHUNK = 16, AHEAD = 2, BETWEEN = TILE_ROWS * GROUP * SPAN };
enum { NARROW = 64, MOST_COLUMNS = 256 };  // a tile of fewer columns than NARROW leaves most threads without a column

// Weights of columns: number `tap` of column `x` is at x * from_column + tap * from_tap. Few taps of a column are read together. Many taps
// are read one by one, so that neighbouring threads read neighbouring words.
enum { FEW_TAPS = 5 };
struct WeightSteps { int32 from_column, from_tap; };
DEVICE WeightSteps weight_steps(int64 taps, int64 columns) {
    return taps <= FEW_TAPS ? WeightSteps{(int32)taps, 1} : WeightSteps{1, (int32)columns};
}

// Round a float to the nearest integer, half to even, and saturate: adding 1.5 * 2**23 leaves the integer in the low bits.
template <class T> DEVICE float32 with_integer(float32 value) {
    const bool inside = !SIGNED && Same<T, uint8>::value;  // weights >= 0 add up to 1: except for rounding, the result is within 0..255
    return (inside ? value : fminf(fmaxf(value, (float32)lowest<T>()), (float32)highest<T>())) + 12582912.0f;
}
DEVICE int32 byte(float32 value) {
    union { float32 real; int32 bits; } both;
    both.real = with_integer<uint8>(value);
    return both.bits & 0xff;
}

// `stored` converts a float32 to an element. `meant` is the value of that element as a float32.
template <class T> DEVICE T stored(float32 value) {
    if constexpr (Kind<T>::is_float) return (T)value;
    else return (T)(with_integer<T>(value) - 12582912.0f);
}
template <class T> DEVICE float32 meant(float32 value) {
    if constexpr (Kind<T>::is_float) return (float32)(T)value;
    else return with_integer<T>(value) - 12582912.0f;
}

// The resized picture of a sample. The table is RESIZE_CUDA (resize_tables.py). Kernels that compute tiles keep this object in shared
// memory, to save registers.
template <class T> struct ResizedPicture {
    const T *source;
    const int32 *first_y, *first_x;
    const float32 *wy, *wx;
    int64 plane_size;
    int32 channels, row_size, taps_y, taps_x, tile_columns, tile_rows;
    WeightSteps steps_x;
    bool tiled, staged, direct;

    DEVICE_MEMBER void look_up(const int64 *context, int64 sample) {
        const int64 *record = array<int64>(context, RESIZE_CUDA_RECORDS) + RESIZE_RECORD_WORDS * sample, *places = array<int64>(context, RESIZE_CUDA_PLACES) + PLACES_WORDS * sample;
        const float64 *intervals = array<float64>(context, RESIZE_CUDA_INTERVALS) + 3 * INTERVAL_WORDS * sample;
        const float32 *weights = array<float32>(context, RESIZE_CUDA_TAPS);
        const int32 *firsts = array<int32>(context, RESIZE_CUDA_TAPS);
        channels = CHANNELS ? CHANNELS : (int32)record[RESIZE_RECORD_CHANNELS];
        row_size = (int32)record[RESIZE_RECORD_IN_WIDTH] * channels;
        plane_size = record[RESIZE_RECORD_IN_HEIGHT] * row_size;
        taps_y = (int32)places[PLACES_HEIGHT_COUNT], taps_x = (int32)places[PLACES_WIDTH_COUNT];
        source = at<const T>(address(context, RESIZE_CUDA_INPUTS, sample));
        first_y = firsts + places[PLACES_HEIGHT_FIRST], first_x = firsts + places[PLACES_WIDTH_FIRST];
        wy = weights + places[PLACES_HEIGHT_WEIGHTS], wx = weights + places[PLACES_WIDTH_WEIGHTS];
        steps_x = weight_steps(taps_x, record[RESIZE_RECORD_OUT_WIDTH]);
        choose_tile((int32)record[RESIZE_RECORD_OUT_WIDTH], step_of(intervals + 2 * INTERVAL_WORDS, record[RESIZE_RECORD_OUT_WIDTH]), step_of(intervals + INTERVAL_WORDS, record[RESIZE_RECORD_OUT_HEIGHT]));
    }
    static DEVICE_MEMBER float32 step_of(const float64 *interval, int64 extent) {
        const float64 lo = interval[INTERVAL_LO], hi = interval[INTERVAL_HI];
        return (float32)(hi < lo ? lo - hi : hi - lo) / (float32)larger(extent, (int64)1);
    }

    // The most columns of a tile, at most `most`, whose source columns are at most `span`.
    static DEVICE_MEMBER int32 columns_of(int32 span, float32 step_x, int32 most) {
        return (int32)smaller((float32)span / larger(step_x, 1e-6f), (float32)(most - 1)) + 1;
    }

    // Choose the widest tile whose source columns fit into the intermediate rows and into the staging memory. If no column fits into the
    // staging memory, source rows are not staged. The width is a multiple of WARP if possible.
    DEVICE_MEMBER void choose_tile(int32 width, float32 step_x, float32 step_y) {
        const float32 rows = ceilf((float32)(TILE_ROWS - 1) * step_y + 0.01f) + (float32)taps_y;
        const int32 staged_span = ((int32)((float32)ROOM / rows) - 2 * CHUNK) / (GROUP * (int32)sizeof(T)) - taps_x - 2;
        const int32 widest_span = (int32)SPAN - taps_x - 2;
        tile_rows = TILE_ROWS, direct = false;
        tiled = CHANNELS && widest_span >= 0;
        staged = tiled && staged_span >= taps_x;
        if (!tiled) {
            tile_columns = WARP;
            return;
        }
        const int32 span = staged ? smaller(staged_span, widest_span) : widest_span;
        tile_columns = columns_of(span, step_x, larger(width, 1));
        // If many source rows become one row, the staging memory holds few columns of them. Then rows are blended from the source's memory
        // (`direct`), and a tile has few rows and many columns.
        const int32 line_span = ((int32)BETWEEN - 2 * EACH) / GROUP - taps_x - 2;
        if (step_y >= 2 && line_span >= 0 && (!staged || (tile_columns < NARROW && tile_columns < width))) {
            direct = true, staged = false;
            tile_columns = columns_of(line_span, step_x, smaller(larger(width, 1), (int32)MOST_COLUMNS));
            const int32 tiles = (width + tile_columns - 1) / tile_columns;
            tile_columns = larger((width + tiles - 1) / larger(tiles, 1), 1);
            tile_rows = smaller((int32)BETWEEN / line_floats((int32)((float32)(tile_columns - 1) * step_x) + 2 + taps_x), (int32)TILE_ROWS);
            return;
        }
        if (tile_columns > WARP && tile_columns < width) {
            const int32 tiles = (width + tile_columns - 1) / tile_columns;
            tile_columns = smaller(((width + tiles - 1) / tiles + WARP - 1) & ~(WARP - 1), tile_columns & ~(WARP - 1));
        }
    }
    // Floats of an intermediate row that begins and ends at a line of the source.
    enum { EACH = CHUNK / sizeof(T) };
    static DEVICE_MEMBER int32 line_floats(int32 span) { return (span * GROUP + 2 * EACH + 3) & ~3; }

    // One plane: a frame, or a leading channel.
    DEVICE_MEMBER const T *plane(int64 number) const { return source + number * plane_size; }

    // Compute `used` channels from channel `c` on of the pixel at (x, y), for pictures without tiles.
    DEVICE_MEMBER void pixel(const T *from, int32 x, int32 y, int32 c, int32 used, float32 *total) const {
        const T *corner = from + (int64)first_y[y] * row_size + first_x[x] * channels + c;
        const float32 *across = wx + (int64)x * steps_x.from_column, *along = wy + (int64)y * taps_y;
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
            for (int32 k = 0; k < GROUP; ++k) total[k] = fmaf(across[(int64)kx * steps_x.from_tap], column[k], total[k]);
        }
    }
};

#if CHANNELS

struct alignas(16) Four { float32 part[4]; };

struct alignas(CHUNK) Chunk { uint32 word[CHUNK / 4]; };

#ifdef HOST_BUILD
WHOLE_WORD Chunk chunk_at(int64 address) { return *at<const Chunk>(address); }
WHOLE_WORD uint32 whole_word(const uint32 *word) { return *word; }
WHOLE_WORD void fetch_chunk(uint8 *to, const uint8 *from) {
    for (int32 k = 0; k < CHUNK; ++k) to[k] = from[k];
}
DEVICE void fetched() {}
#else
DEVICE Chunk chunk_at(int64 address) { return *at<const Chunk>(address); }
DEVICE uint32 whole_word(const uint32 *word) { return __ldg(word); }
// Copy CHUNK bytes to shared memory; the copy is complete after fetched().
DEVICE void fetch_chunk(uint8 *to, const uint8 *from) {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"((uint32)__cvta_generic_to_shared(to)), "l"(from) : "memory");
#else
    *reinterpret_cast<Four *>(to) = *reinterpret_cast<const Four *>(from);
#endif
}
DEVICE void fetched() {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_all;" ::: "memory");
#endif
}
#endif

// The 16 bytes from `from` on. Of the aligned words that contain them, only words with at least one byte of [first, end) are read.
DEVICE Chunk chunk_from(int64 from, int64 first, int64 end) {
    const int64 base = from & -4ll;
    const int32 bits = 8 * (int32)(from & 3);
    uint32 word[CHUNK / 4 + 1];
    #pragma unroll
    for (int32 k = 0; k <= CHUNK / 4; ++k) word[k] = base + 4 * k + 4 > first && base + 4 * k < end ? whole_word(at<const uint32>(base + 4 * k)) : 0;
    Chunk chunk;
    #pragma unroll
    for (int32 k = 0; k < CHUNK / 4; ++k) chunk.word[k] = __funnelshift_r(word[k], word[k + 1], bits);
    return chunk;
}

// The bits of a byte v, read as float32, are the number v * 2**-149. Weights are multiplied by 2**100, so bytes need no conversion. All
// sums are then exactly 2**-49 times the sums of the compiled step.
template <class T> struct Magnified {
    static DEVICE_MEMBER float32 weight(float32 value) { return value; }
    static DEVICE_MEMBER float32 total(float32 value) { return value; }
};
template <> struct Magnified<uint8> {
    static DEVICE_MEMBER float32 weight(float32 value) { return value * 1.2676506002282294e30f; }
    static DEVICE_MEMBER float32 total(float32 value) { return value * 562949953421312.0f; }
};

// Elements of QUAD neighbouring pixels of a source row, starting at element `i` of the row.
template <class T> struct Quad {
    float32 element[QUAD * GROUP];

    DEVICE_MEMBER void load(const T *row, int32 i, int32 count) {
        for (int32 c = 0; c < QUAD * GROUP; ++c) element[c] = i + c < count ? real(row[i + c]) : 0;
    }
    DEVICE_MEMBER void load_staged(const T *row, int32 i) {
        for (int32 c = 0; c < QUAD * GROUP; ++c) element[c] = real(row[i + c]);
    }
};
template <> struct Quad<uint8> {
    float32 element[QUAD * GROUP];

    // The aligned words that contain the row's bytes. Sets `skipped` to the number of bytes of the first word that precede the row.
    static DEVICE_MEMBER const uint32 *words(const uint8 *row, uint32 &skipped) {
        skipped = (uint32)reinterpret_cast<uint64>(row) & 3;
        return reinterpret_cast<const uint32 *>(row - skipped);
    }
    DEVICE_MEMBER void take(const uint32 *word, uint32 skipped) {
        for (int32 k = 0; k < GROUP; ++k) {
            const uint32 bytes = __funnelshift_r(word[k], word[k + 1], 8 * skipped);
            for (int32 c = 0; c < 4; ++c) element[4 * k + c] = __uint_as_float(__byte_perm(bytes, 0, 0x4440 + c));
        }
    }
    // Only words with at least one byte of the row are read.
    DEVICE_MEMBER void load(const uint8 *row, int32 i, int32 count) {
        uint32 skipped, word[GROUP + 1];
        const uint32 *from = words(row + i, skipped);
        for (int32 k = 0; k <= GROUP; ++k) word[k] = i + 4 * k - (int32)skipped < count ? whole_word(from + k) : 0;
        take(word, skipped);
    }
    DEVICE_MEMBER void load_staged(const uint8 *row, int32 i) {
        uint32 skipped, word[GROUP + 1];
        const uint32 *from = words(row, skipped) + i / 4;
        for (int32 k = 0; k <= GROUP; ++k) word[k] = from[k];
        take(word, skipped);
    }
};

// A part of the output in shared memory: at most TILE_ROWS rows and picture.tile_columns columns. The kernel chooses the part; `look_up`
// finds the required part of the source.
template <class T> struct Tile {
    const T *source;
    int32 y, rows, x, columns;
    const T *from;
    int32 top, source_rows, begin, span;  // rows; columns (pixels) of intermediate rows
    int32 row_bytes, pitch;               // row strides, in the source and in shared memory

    DEVICE_MEMBER void look_up(const ResizedPicture<T> &picture) {
        source_rows = 0;
        if (rows <= 0 || columns <= 0) return;
        const int32 left = picture.first_x[x], right = picture.first_x[x + columns - 1];
        const int32 first = picture.first_y[y], last = picture.first_y[y + rows - 1];
        begin = smaller(left, right), span = larger(left, right) + picture.taps_x - begin;
        top = smaller(first, last), source_rows = larger(first, last) + picture.taps_y - top;
        from = source + (int64)top * picture.row_size + begin * GROUP;
        row_bytes = picture.row_size * (int32)sizeof(T);
        pitch = (span * GROUP * (int32)sizeof(T) + 2 * CHUNK - 1) & ~(CHUNK - 1);
    }
    // The offset of a source row within its first chunk.
    DEVICE_MEMBER uint32 offset(int32 row) const { return ((uint32)reinterpret_cast<uint64>(from) + (uint32)(row * row_bytes)) & (CHUNK - 1); }
};

struct Staging {
    alignas(CHUNK) uint8 bytes[ROOM + 4 * CHUNK];  // quads read past the end of the last row, and discard those words
};

// Copy source rows to shared memory, in whole chunks that contain at least one byte of the row. The copies are complete after fetched().
template <class T> DEVICE void fetch(const Tile<T> &tile, Staging &staging) {
    const int32 size = tile.span * GROUP * (int32)sizeof(T), lane = threadIdx.x % WARP * CHUNK, warp = threadIdx.x / WARP, warps = blockDim.x / WARP;
    const uint8 *from = reinterpret_cast<const uint8 *>(tile.from) + (int64)warp * tile.row_bytes;
    uint8 *to = staging.bytes + warp * tile.pitch;
    for (int32 row = warp; row < tile.source_rows; row += warps, from += warps * tile.row_bytes, to += warps * tile.pitch) {
        const int32 offset = (int32)reinterpret_cast<uint64>(from) & (CHUNK - 1);
        for (int32 at = lane; at < offset + size; at += WARP * CHUNK) fetch_chunk(to + at, from - offset + at);
    }
}

// Blend the tile's source rows along y into the intermediate rows `between`, one row per warp. TAPS: number of taps, 0 for any number.
template <int TAPS, bool STAGED, class T>
DEVICE void blend_rows(const ResizedPicture<T> &picture, const Tile<T> &tile, const Staging &staging, float32 (*between)[GROUP][SPAN]) {
    for (int32 row = threadIdx.x / WARP; row < tile.rows; row += blockDim.x / WARP) {
        const int32 taps = TAPS ? TAPS : picture.taps_y, first = picture.first_y[tile.y + row] - tile.top;
        const float32 *along = picture.wy + (int64)(tile.y + row) * taps;
        float32 weight[TAPS ? TAPS : 1];
        const T *source[TAPS ? TAPS : 1];
        for (int32 k = 0; k < TAPS; ++k) {
            weight[k] = Magnified<T>::weight(along[k]);
            source[k] = reinterpret_cast<const T *>(staging.bytes + (first + k) * tile.pitch + tile.offset(first + k));
        }
        for (int32 x = threadIdx.x % WARP * QUAD; x < tile.span; x += WARP * QUAD) {
            float32 sum[QUAD * GROUP];
            for (int32 c = 0; c < QUAD * GROUP; ++c) sum[c] = 0;
            Quad<T> quad;
            if (TAPS) {
#pragma unroll
                for (int32 k = 0; k < TAPS; ++k) {
                    quad.load_staged(source[k], x * GROUP);
                    for (int32 c = 0; c < QUAD * GROUP; ++c) sum[c] = fmaf(weight[k], quad.element[c], sum[c]);
                }
            } else {
#pragma unroll 1
                for (int32 k = 0; k < taps; ++k) {
                    if (STAGED) {
                        const uint8 *bytes = staging.bytes + (first + k) * tile.pitch + tile.offset(first + k);
                        quad.load_staged(reinterpret_cast<const T *>(bytes), x * GROUP);
                    } else {
                        quad.load(tile.from + (int64)(first + k) * picture.row_size, x * GROUP, tile.span * GROUP);
                    }
                    const float32 factor = Magnified<T>::weight(along[k]);
                    for (int32 c = 0; c < QUAD * GROUP; ++c) sum[c] = fmaf(factor, quad.element[c], sum[c]);
                }
            }
            for (int32 c = 0; c < GROUP; ++c) {
                Four four;
                for (int32 k = 0; k < QUAD; ++k) four.part[k] = sum[k * GROUP + c];
                *reinterpret_cast<Four *>(between[row][c] + x) = four;
            }
        }
    }
}

// Compute the tile's pixels from the intermediate rows `between`. A warp computes 32 columns. emit.column(column) returns a function that
// stores the pixels of one column; it is called once per row, with the row's channels. TAPS: number of taps, 0 for any number.
template <int TAPS, class T, class Emit>
DEVICE void blend_columns(const ResizedPicture<T> &picture, const Tile<T> &tile, const float32 (*between)[GROUP][SPAN], const Emit &emit) {
    for (int32 column = threadIdx.x; column < tile.columns; column += blockDim.x) {
        const int32 x = tile.x + column;
        const float32 *weight = picture.wx + (int64)x * (TAPS ? TAPS : picture.steps_x.from_column), *from = between[0][0] + picture.first_x[x] - tile.begin;
        float32 weights[TAPS ? TAPS : 1];
        for (int32 k = 0; k < TAPS; ++k) weights[k] = weight[k];
        auto pixel = emit.column(column);
#pragma unroll 1
        for (int32 row = 0; row < tile.rows; ++row, from += GROUP * SPAN) {
            float32 total[GROUP];
            for (int32 c = 0; c < GROUP; ++c) total[c] = 0;
            if (TAPS) {
#pragma unroll
                for (int32 k = 0; k < TAPS; ++k) {
                    for (int32 c = 0; c < GROUP; ++c) total[c] = fmaf(weights[k], from[c * SPAN + k], total[c]);
                }
            } else {
#pragma unroll 1
                for (int32 k = 0; k < picture.taps_x; ++k) {
                    for (int32 c = 0; c < GROUP; ++c) total[c] = fmaf(weight[(int64)k * picture.steps_x.from_tap], from[c * SPAN + k], total[c]);
                }
            }
            for (int32 c = 0; c < GROUP; ++c) total[c] = Magnified<T>::total(total[c]);
            pixel(total);
        }
    }
}

// Blend the tile's source rows along y, 16 bytes of each row per thread. Intermediate rows have the order of elements of the source; they
// begin where the first row's first line of 16 bytes begins.
template <class T> struct Elements {
    static DEVICE_MEMBER float32 of(const Chunk &chunk, int32 k) { return real(reinterpret_cast<const T *>(&chunk)[k]); }
};
template <> struct Elements<uint8> {
    static DEVICE_MEMBER float32 of(const Chunk &chunk, int32 k) { return __uint_as_float(__byte_perm(chunk.word[k / 4], 0, 0x4440 + k % 4)); }
};

template <class T> DEVICE void blend_lines(const ResizedPicture<T> &picture, const Tile<T> &tile, float32 *between) {
    const int32 each = CHUNK / (int32)sizeof(T), lead = tile.offset(0), size = tile.span * GROUP * (int32)sizeof(T), chunks = (lead + size + CHUNK - 1) / CHUNK;
    const int32 taps = picture.taps_y, stride = picture.line_floats(tile.span);
    for (int32 row = 0; row < tile.rows; ++row) {
        const int32 y = tile.y + row;
        const float32 *along = picture.wy + (int64)y * taps;
        const int64 begin = reinterpret_cast<int64>(tile.from) + (int64)(picture.first_y[y] - tile.top) * tile.row_bytes;
        // Do all source rows begin at the same byte of a line?
        const bool aligned = ((begin - lead) & (CHUNK - 1)) == 0 && (tile.row_bytes & (CHUNK - 1)) == 0;
        for (int32 chunk = threadIdx.x; chunk < chunks; chunk += blockDim.x) {
            float32 sum[CHUNK / sizeof(T)];
            #pragma unroll
            for (int32 j = 0; j < each; ++j) sum[j] = 0;
            int64 from = begin - lead + CHUNK * chunk;
            if (aligned) {
#pragma unroll 4  // four loads in flight; with one, the kernel takes 1.5 times as long
                for (int32 k = 0; k < taps; ++k, from += tile.row_bytes) {
                    const Chunk given = chunk_at(from);
                    const float32 factor = Magnified<T>::weight(along[k]);
                    #pragma unroll
                    for (int32 j = 0; j < each; ++j) sum[j] = fmaf(factor, Elements<T>::of(given, j), sum[j]);
                }
            } else {
                int64 first = begin;
#pragma unroll 2
                for (int32 k = 0; k < taps; ++k, from += tile.row_bytes, first += tile.row_bytes) {
                    const Chunk given = chunk_from(from, first, first + size);
                    const float32 factor = Magnified<T>::weight(along[k]);
                    #pragma unroll
                    for (int32 j = 0; j < each; ++j) sum[j] = fmaf(factor, Elements<T>::of(given, j), sum[j]);
                }
            }
            #pragma unroll
            for (int32 j = 0; j < each; j += 4) {
                Four four;
                #pragma unroll
                for (int32 k = 0; k < 4; ++k) four.part[k] = sum[j + k];
                *reinterpret_cast<Four *>(between + row * stride + chunk * each + j) = four;
            }
        }
    }
}

// Compute the tile's pixels from the rows of blend_lines, a pixel per thread.
template <class T, class Emit>
DEVICE void blend_pixels_of_lines(const ResizedPicture<T> &picture, const Tile<T> &tile, const float32 *between, const Emit &emit) {
    const int32 lead = tile.offset(0) / (int32)sizeof(T), stride = picture.line_floats(tile.span), taps = picture.taps_x;
    for (int32 item = threadIdx.x; item < tile.rows * tile.columns; item += blockDim.x) {
        const int32 row = item / tile.columns, column = item - row * tile.columns, x = tile.x + column;
        const float32 *weight = picture.wx + (int64)x * picture.steps_x.from_column, *from = between + row * stride + lead + (picture.first_x[x] - tile.begin) * GROUP;
        auto pixel = emit.column(column);
        pixel.skip(row);
        float32 total[GROUP];
        for (int32 c = 0; c < GROUP; ++c) total[c] = 0;
#pragma unroll 4
        for (int32 k = 0; k < taps; ++k, from += GROUP, weight += picture.steps_x.from_tap) {
            for (int32 c = 0; c < GROUP; ++c) total[c] = fmaf(*weight, from[c], total[c]);
        }
        for (int32 c = 0; c < GROUP; ++c) total[c] = Magnified<T>::total(total[c]);
        pixel(total);
    }
}

// Compute all pixels of a tile without intermediate rows.
template <class T, class Emit> DEVICE void blend_pixels(const ResizedPicture<T> &picture, const Tile<T> &tile, const Emit &emit) {
    for (int32 column = threadIdx.x; column < tile.columns; column += blockDim.x) {
        auto pixel = emit.column(column);
        for (int32 row = 0; row < tile.rows; ++row) {
            float32 total[GROUP];
            picture.pixel(tile.source, tile.x + column, tile.y + row, 0, GROUP, total);
            pixel(total);
        }
    }
}

// Compute this block's tiles of a sample's output. One thread calls find(number, tile, emit). `find` sets a tile's place and the function
// that stores its pixels; a tile outside the picture has no rows. All threads call beside(emit), which fills the output outside.
template <class Emit, class T, class Find, class Beside>
DEVICE void resized_tiles(const ResizedPicture<T> &picture, int32 tiles, const Find &find, const Beside &beside) {
    __shared__ float32 between[TILE_ROWS][GROUP][SPAN];
    __shared__ Staging staging;
    __shared__ Tile<T> parts[AHEAD + 1];
    __shared__ Emit emits[AHEAD + 1];
    const auto look_up = [&](int32 number, int32 place) {
        if (number >= tiles) return;
        find(number, parts[place], emits[place]);
        parts[place].look_up(picture);
    };
    const int32 step = gridDim.x;
    if (threadIdx.x % WARP == 0 && threadIdx.x / WARP < AHEAD) look_up(blockIdx.x + threadIdx.x / WARP * step, threadIdx.x / WARP);
    __syncthreads();
    if (picture.staged && blockIdx.x < tiles) fetch(parts[0], staging);
    int32 turn = 0, after = 1;
    for (int32 number = blockIdx.x; number < tiles; number += step) {
        const Tile<T> &tile = parts[turn];
        fetched();
        __syncthreads();
        const int32 along = picture.staged ? picture.taps_y : 0;
        if (picture.direct) blend_lines(picture, tile, between[0][0]);
        else if (!picture.tiled) blend_pixels(picture, tile, emits[turn]);
        else if (along == 1) blend_rows<1, true>(picture, tile, staging, between);
        else if (along == 2) blend_rows<2, true>(picture, tile, staging, between);
        else if (along == 3) blend_rows<3, true>(picture, tile, staging, between);
        else if (along == 4) blend_rows<4, true>(picture, tile, staging, between);
        else if (along == 5) blend_rows<5, true>(picture, tile, staging, between);
        else if (along) blend_rows<0, true>(picture, tile, staging, between);
        else blend_rows<0, false>(picture, tile, staging, between);
        __syncthreads();
        if (picture.staged && number + step < tiles) fetch(parts[after], staging);
        // A thread of the last warp looks up the next tile, because this warp often has no columns to blend.
        if (threadIdx.x == blockDim.x - 1) look_up(number + AHEAD * step, 3 - turn - after);
        beside(emits[turn]);
        const int32 across = picture.tiled && !picture.direct ? picture.taps_x : -1;
        if (picture.direct) blend_pixels_of_lines(picture, tile, between[0][0], emits[turn]);
        else if (across == 1) blend_columns<1>(picture, tile, between, emits[turn]);
        else if (across == 2) blend_columns<2>(picture, tile, between, emits[turn]);
        else if (across == 3) blend_columns<3>(picture, tile, between, emits[turn]);
        else if (across == 4) blend_columns<4>(picture, tile, between, emits[turn]);
        else if (across == 5) blend_columns<5>(picture, tile, between, emits[turn]);
        else if (across > 0) blend_columns<0>(picture, tile, between, emits[turn]);
        const int32 third = 3 - turn - after;
        turn = after, after = third;
    }
    __syncthreads();
}

#endif
