// rotate and warp_affine: inverse affine warp, nearest or linear. See rotate.py.
// Macros: IN, OUT element types; VOLUME 1: samples have a depth axis; CHANNELS: number of channels of all samples, 0 if samples differ.
#define RESIDENT 4  // 64 registers. Without a limit, pictures have 80 and three blocks, volumes 116 and two (0.73 ms instead of 0.52)
#include "quads.cuh"
#include "rotate.py"

#define RUN 256 // as _RUN of rotate_kernels.py

// The integer part of a position. Far positions are clamped, so that the result fits into 32 bits; they stay outside the picture.
DEVICE int32 whole(float32 position) { return (int32)floorf(smaller(larger(position, -1e6f), 1e6f + 16777216.0f)); }

// Round a value from 0 to 255 as convert() does, which also clamps.
template <class T> DEVICE T rounded(float32 value) {
    if constexpr (Same<T, uint8>::value) return (uint8)(__float_as_uint(__fadd_rz(value, 4194304.5f)) >> 1);
    else return convert<T>(value);
}

// Values of a sample that all pixels use. Without copies the compiler would read the table again after each stored byte.
// `last_column`, `last_row`: floats that are exact. Pixels beyond 2**24 check each neighbour.
struct Source { int32 height, width, channels; float32 last_column, last_row, fill; bool clamp, linear, quads; };
DEVICE float32 exact(int64 place) { return (float32)(int32)smaller(place, (int64)1 << 24); }

DEVICE void pixel(const IN *source, float32 px, float32 py, const Source &s, OUT *to) {
    const int32 height = s.height, width = s.width, channels = CHANNELS ? CHANNELS : s.channels;
    const bool clamp = s.clamp;
    const float32 fill = s.fill;
    if constexpr (CHANNELS == 3 && Same<IN, uint8>::value) {
        const float32 column = floorf(px), row = floorf(py);
        if (s.linear && column >= 0 && row >= 0 && column < s.last_column && row < s.last_row) {
            // All four neighbours are in the picture. Load six bytes of each row at once: a third as many loads.
            const float32 fx = px - column, fy = py - row;
            const int64 above = (int64)source + ((int64)(int32)row * width + (int32)column) * 3;
            const SixBytes high = six_bytes(above), low = six_bytes(above + 3 * width);
            #pragma unroll
            for (int32 c = 0; c < 3; ++c) {
                const float32 one = byte_of(high, c), other = byte_of(low, c);
                const float32 over = fmaf(byte_of(high, c + 3) - one, fx, one), under = fmaf(byte_of(low, c + 3) - other, fx, other);
                to[c] = rounded<OUT>(fmaf(under - over, fy, over));
            }
            return;
        }
    }
    const int32 x = whole(px), y = whole(py);
    const bool near = x >= 0 && x < width, next = x + 1 >= 0 && x + 1 < width, up = y >= 0 && y < height, down = y + 1 >= 0 && y + 1 < height;
    const int32 left = clamp ? smaller(larger(x, 0), width - 1) : x, right = clamp ? smaller(larger(x + 1, 0), width - 1) : x + 1;
    const int32 top = clamp ? smaller(larger(y, 0), height - 1) : y, bottom = clamp ? smaller(larger(y + 1, 0), height - 1) : y + 1;
    const int64 line = (int64)width * channels;
    const IN *above = source + top * line, *below = source + bottom * line;
    if (!s.linear) {
        const bool found = clamp || (near && up);
        for (int32 c = 0; c < channels; ++c) to[c] = convert<OUT>(found ? real(above[left * channels + c]) : fill);
        return;
    }
    if (!clamp && !((near || next) && (up || down))) {
        const OUT nothing = convert<OUT>(fill);
        for (int32 c = 0; c < channels; ++c) to[c] = nothing;
        return;
    }
    const bool a = clamp || (near && up), b = clamp || (next && up), d = clamp || (near && down), e = clamp || (next && down);
    const float32 fx = px - (float32)x, fy = py - (float32)y;
    for (int32 c = 0; c < channels; ++c) {
        const float32 upper = a ? real(above[left * channels + c]) : fill, upper_next = b ? real(above[right * channels + c]) : fill;
        const float32 lower = d ? real(below[left * channels + c]) : fill, lower_next = e ? real(below[right * channels + c]) : fill;
        const float32 high = fmaf(upper_next - upper, fx, upper), low = fmaf(lower_next - lower, fx, lower);
        to[c] = convert<OUT>(fmaf(low - high, fy, high));
    }
}

// The values that all voxels of a volume share.
struct Volume {
    int32 depth, height, width, channels;
    int64 plane;
    float32 fill, last_column, last_row, last_level;
    bool clamp, linear, empty, small;  // small: places fit into 32 bits, and positions are exact
};

// Place: the type of places in a sample. Neighbours are added in the order of the compiled step. Borders take no path of their own, because
// half of the warps have a voxel at a border.
template <class Place> DEVICE void voxel_of(const IN *source, float32 px, float32 py, float32 pz, const Volume &v, OUT *to) {
    const int32 channels = CHANNELS ? CHANNELS : v.channels, x = whole(px), y = whole(py), z = whole(pz);
    const float32 fx = px - floorf(px), fy = py - floorf(py), fz = pz - floorf(pz);
    Place column[2], row[2], level[2];
    bool across[2], down[2], deep[2];
    #pragma unroll
    for (int32 k = 0; k < 2; ++k) {
        across[k] = v.clamp || (uint32)(x + k) < (uint32)v.width, column[k] = (Place)smaller(larger(x + k, 0), v.width - 1) * channels;
        down[k] = v.clamp || (uint32)(y + k) < (uint32)v.height, row[k] = (Place)smaller(larger(y + k, 0), v.height - 1) * v.width * channels;
        deep[k] = v.clamp || (uint32)(z + k) < (uint32)v.depth, level[k] = (Place)smaller(larger(z + k, 0), v.depth - 1) * (Place)v.plane;
    }
    for (int32 c = 0; c < channels; ++c) {
        IN near[8] = {};  // All are loaded, because the loads of a branch would wait for each other.
        #pragma unroll
        for (int32 k = 0; k < 8; ++k) {
            if (!v.empty && (k == 0 || v.linear)) near[k] = source[level[k >> 2] + row[k >> 1 & 1] + column[k & 1] + c];
        }
        float32 total = 0;
        #pragma unroll
        for (int32 k = 0; k < 8; ++k) {
            const int32 i = k & 1, j = k >> 1 & 1, l = k >> 2;
            float32 value = across[i] && down[j] && deep[l] ? (float32)near[k] : v.fill;
            if (v.linear) value *= (i ? fx : 1 - fx) * (j ? fy : 1 - fy) * (l ? fz : 1 - fz);
            total += value;
            if (!v.linear) break;
        }
        to[c] = convert<OUT>(total);
    }
}

APART void large_voxel(const IN *source, float32 px, float32 py, float32 pz, const Volume *v, OUT *to) { voxel_of<int64>(source, px, py, pz, *v, to); }

DEVICE void voxel(const IN *source, float32 px, float32 py, float32 pz, const Volume &v, OUT *to) {
    if (!v.small) return large_voxel(source, px, py, pz, &v, to);
    const float32 x = floorf(px), y = floorf(py), z = floorf(pz);
    const bool outside = x < -1 || x > v.last_column || y < -1 || y > v.last_row || z < -1 || z > v.last_level;
    if (!outside || v.clamp || v.fill != 0) return voxel_of<int32>(source, px, py, pz, v, to);
    for (int32 c = 0; c < (CHANNELS ? CHANNELS : v.channels); ++c) to[c] = convert<OUT>(0.0f);
}

static constexpr bool in_quads = CHANNELS == 3 && Same<IN, uint8>::value && Same<OUT, uint8>::value;

// A pixel, as a function that is called: inlined, its code would need registers in the loop of the quads.
APART void lone_pixel(const IN *source, float32 px, float32 py, const Source *s, OUT *to) { pixel(source, px, py, *s, to); }

// The position, moved to the nearest pixel of 0..last. NaN stays.
DEVICE float32 clamped(float32 position, float32 last) { return position < 0 ? 0 : position > last ? last : position; }

// Four pixels of a row of the output. Pixel j lies `column[j]` pixels behind `to`; pixels from `count` on are not stored.
DEVICE void quad(int64 source, const float32 *px, const float32 *py, const Source &s, int64 to, const int32 *column, int32 count, bool aligned) {
    const int32 least = s.linear ? 2 : 1;  // pixels along each axis that a pixel is made of
    const bool clamp = s.clamp && s.width >= least && s.height >= least;
    int32 place[QUAD];
    float32 fx[QUAD], fy[QUAD];
    uint32 word[3], found = 0;
    bool outside = !s.clamp, known = true;
    #pragma unroll
    for (int32 j = 0; j < QUAD; ++j) {
        float32 across = px[j], down = py[j];
        if (clamp) across = clamped(across, s.last_column), down = clamped(down, s.last_row);
        int32 x = floor_of(across, fx[j]), y = floor_of(down, fy[j]);
        known = known && is_exact(x) && is_exact(y);
        if (clamp && s.linear) {  // A pixel of the border is the second one of a pair.
            if (x == s.width - 1) x -= 1, fx[j] = 1;
            if (y == s.height - 1) y -= 1, fy[j] = 1;
        }
        if ((uint32)x < (uint32)(s.width - least + 1) && (uint32)y < (uint32)(s.height - least + 1)) found |= 1u << j;
        outside = outside && (across < -1 || across >= (float32)s.width || down < -1 || down >= (float32)s.height);
        place[j] = (y * s.width + x) * 3;
    }
    const uint32 fill = 0x01010101u * (uint32)(uint8)convert<uint8>(s.fill);
    if (outside) {
        word[0] = word[1] = word[2] = fill;
    } else if (s.linear && found == 15) {
        blend<true>(source, 3 * s.width, place, fx, fy, word);
    } else if (!s.linear && known && (found == 15 || !s.clamp)) {
        uint32 one[QUAD];
        #pragma unroll
        for (int32 j = 0; j < QUAD; ++j) one[j] = found >> j & 1 ? three_bytes(source + place[j]) : fill;
        joined(one, word);
    } else {
        #pragma unroll 1
        for (int32 j = 0; j < count; ++j) {
            float32 x = px[0], y = py[0];
            int32 behind = column[0];
            #pragma unroll
            for (int32 k = 1; k < QUAD; ++k) {
                if (j == k) x = px[k], y = py[k], behind = column[k];
            }
            lone_pixel(at<const IN>(source), x, y, &s, at<OUT>(to) + 3 * behind);
        }
        return;
    }
    if (aligned) return store_quad(to + 3 * column[0], word);
    #pragma unroll
    for (int32 k = 0; k < 3 * QUAD; ++k) {
        if (k / 3 < count) at<uint8>(to + 3 * column[k / 3])[k % 3] = (uint8)(word[k / 4] >> 8 * (k % 4));
    }
}

// The float32 value of `x` after `count` additions of `step`, each rounded. advanced() in rotate_kernels.py explains the method.
DEVICE float32 advanced(float32 x, float32 step, int32 count) {
    while (count > 0) {
        const float32 a = x + step;
        if (count > 8) {
            const float32 b = a + step, c = b + step, d = c - b;
            const uint32 kind = __float_as_uint(b) >> 23;
            if (d == 0) return b;
            if (kind == __float_as_uint(a) >> 23 && kind == __float_as_uint(c) >> 23 && (kind & 255) != 255) {
                const float32 limit = __uint_as_float((kind + ((d > 0) == (b > 0) ? 1 : 0)) << 23);
                const float64 room = ((float64)limit - (float64)b) / (float64)d;
                const int32 more = room < (float64)count ? smaller((int32)room - 1, count - 2) : count - 2;
                if (more > 0) {
                    x = (float32)((float64)b + (float64)more * (float64)d);
                    count -= 2 + more;
                    continue;
                }
            }
        }
        x = a;
        --count;
    }
    return x;
}

// Source positions along a row. Columns must be requested in ascending order. The running sum restarts every RUN columns.
struct Walk {
    float32 first, step, now;
    int32 begin, column;
    DEVICE_MEMBER float32 at(int32 wanted) {
        while (wanted >= begin + RUN) {
            first += step * (float32)RUN;
            begin += RUN;
            column = begin;
            now = first;
        }
        now = advanced(now, step, wanted - column);
        column = wanted;
        return now;
    }
};

// The walk along row y of plane z, for one coordinate: row `m` of the map.
DEVICE Walk walk_of(const float32 *m, float32 y, float32 z, bool volume) {
    float32 first = (m[3] + m[0] * 0.5f) + m[1] * (y + 0.5f);
    if (volume) first += m[2] * (z + 0.5f);
    return Walk{first, m[0], first, 0, 0};
}

#define TILE 4096  // as _TILE of rotate_kernels.py
#define LINES (TILE / 32)  // most lines of a tile; one column of padding lets neighbouring lines begin in different banks of shared memory

#define VOLUME_TILE 2048  // three coordinates
#define VOLUME_LINES (VOLUME_TILE / 32)

#if !VOLUME
// A sample and a tile of it, for all threads of a block. The object is in shared memory, so that the loops have registers left.
struct Part {
    Source shape;
    const int64 *record;
    const float32 *maps;
    int64 source, out, plane, rows, out_height, out_width, top;
    float32 shift;
    int32 columns, lines, across, left, wide, used;

    DEVICE_MEMBER void look_up(const int64 *context, int64 sample) {
        const int64 *r = array<int64>(context, ROTATE_RECORDS) + ROTATE_RECORD_WORDS * sample;
        const int64 height = r[ROTATE_RECORD_IN_HEIGHT], width = r[ROTATE_RECORD_IN_WIDTH], channels = r[ROTATE_RECORD_CHANNELS];
        const bool linear = context[ROTATE_LINEAR] != 0;
        plane = height * width * channels, record = r, maps = array<float32>(context, ROTATE_MAPS);
        source = address(context, ROTATE_INPUTS, sample), out = address(context, ROTATE_OUTPUTS, sample);
        out_width = r[ROTATE_RECORD_OUT_WIDTH], out_height = r[ROTATE_RECORD_OUT_HEIGHT];
        rows = r[ROTATE_RECORD_FRAMES] * r[ROTATE_RECORD_IN_DEPTH] * out_height;
        shift = linear ? 0.5f : 0.0f;
        columns = lanes_of(out_width), lines = TILE / columns, across = (int32)((out_width + columns - 1) / columns);
        shape.height = (int32)height, shape.width = (int32)width, shape.channels = (int32)channels;
        shape.last_column = exact(width - 1), shape.last_row = exact(height - 1), shape.fill = *array<float32>(context, ROTATE_FILL);
        shape.clamp = context[ROTATE_CLAMP] != 0 && plane != 0, shape.linear = linear, shape.quads = in_quads && fits_quads(height, width) && plane != 0;
    }
    DEVICE_MEMBER int64 tiles() const { return (rows + lines - 1) / lines * across; }
    DEVICE_MEMBER void begin(int64 tile) {
        const int32 part = (int32)take(tile, (int64)across);
        left = part * columns, wide = (int32)smaller((int64)columns, out_width - left);
        top = tile * lines, used = (int32)smaller((int64)lines, rows - top);
    }
    // The source of a line: frames and depth are planes.
    DEVICE_MEMBER const IN *source_of(int32 line) const { return at<const IN>(source) + (rows == out_height ? 0 : (top + line) / out_height) * plane; }
};

// Positions equal those of the compiled step to the last bit: sums of many steps, each rounded. So one thread computes the positions of a
// line of a tile, for one coordinate. Other blocks of the multiprocessor compute pixels meanwhile.
APART void walk(const Part &part, float32 (*positions)[TILE + LINES]) {
    const int32 lines = part.lines;
    for (int32 i = threadIdx.x; i < 2 * lines; i += blockDim.x) {
        const int32 axis = i >= lines, line = axis ? i - lines : i;
        if (line >= part.used) continue;
        int64 frame = part.top + line;
        const int64 y = take(frame, part.out_height);
        const float32 *m = part.maps + 12 * (part.record[ROTATE_RECORD_MAP] + frame * part.record[ROTATE_RECORD_MAP_STEP]) + 4 * axis;
        const float32 step = m[0], shift = part.shift;
        const int32 wide = part.wide;
        float32 now = walk_of(m, (float32)y, 0, false).at(part.left), *to = positions[axis] + line * (part.columns + 1);
        for (int32 k = 0; k < wide; ++k) {
            to[k] = now - shift;
            now += step;
        }
    }
}

// All pixels of a tile, one at a time.
APART void make_pixels(const Part &part, const float32 (*positions)[TILE + LINES]) {
    const Source shape = part.shape;
    const int32 wide = part.wide, count = part.used * wide, pitch = part.columns + 1;
    const uint32 reciprocal = 0xffffffffu / (uint32)wide + 1;  // i / wide is exact for the numbers here, which are below 2**16
    for (int32 i = threadIdx.x; i < count; i += blockDim.x) {
        const int32 line = wide == 1 ? i : (int32)((uint64)i * reciprocal >> 32), column = i - line * wide, place = line * pitch + column;
        OUT *to = at<OUT>(part.out) + ((part.top + line) * part.out_width + part.left + column) * shape.channels;
        pixel(part.source_of(line), positions[0][place], positions[1][place], shape, to);
    }
}

// All pixels of a tile, four at a time. A warp computes 4 rows of 8 groups of 4 pixels. Groups begin at a word of the output. The pixels
// before the first group and behind the last one are a group together, if they are 4 pixels; otherwise two groups.
DEVICE void make_quads(const Part &part, const float32 (*positions)[TILE + LINES]) {
    const int32 wide = part.wide, pitch = part.columns + 1, lines = part.lines, used = part.used;
    const bool even = wide % QUAD == 0;
    const int32 groups = wide / QUAD + (even ? 0 : 2);
    const uint32 reciprocal = 0xffffffffu / (uint32)(4 * groups) + 1;
    for (int32 i = threadIdx.x; i < lines * groups; i += blockDim.x) {
        const int32 four = (int32)((uint64)i * reciprocal >> 32), within = i - four * 4 * groups, line = 4 * four + (within & 3), group = within >> 2;
        if (line >= used) continue;
        const int64 to = part.out + ((part.top + line) * part.out_width + part.left) * 3;
        const int32 head = smaller((int32)(to & 3), wide), inner = (wide - head) / QUAD, tail = wide - head - QUAD * inner;
        int32 begin = head + QUAD * group, jump = 0, split = QUAD, count = QUAD;
        if (group >= inner) {
            if (even) begin = 0, split = head, jump = wide - QUAD;
            else if (group == inner) begin = 0, count = head;
            else begin = wide - tail, count = group == inner + 1 ? tail : 0;
            if (!count) continue;
        }
        float32 px[QUAD], py[QUAD];
        int32 column[QUAD];
        #pragma unroll
        for (int32 j = 0; j < QUAD; ++j) {
            column[j] = begin + smaller(j, count - 1) + (j >= split ? jump : 0);
            const int32 place = line * pitch + column[j];
            px[j] = positions[0][place], py[j] = positions[1][place];
        }
        quad((int64)part.source_of(line), px, py, part.shape, to, column, count, group < inner);
    }
}
#endif

KERNEL rotate(const int64 *context) {
#if VOLUME
    // One thread computes the positions of a line of a tile, for one coordinate, as walk() does for pictures.
    __shared__ float32 positions[3][VOLUME_TILE + VOLUME_LINES];
    __shared__ Volume volume;  // in shared memory, so that the loops have registers left
    const bool linear = context[ROTATE_LINEAR] != 0;
    const float32 shift = linear ? 0.5f : 0.0f;
    FOR_SAMPLES(sample, context[ROTATE_SAMPLES]) {
        const int64 *r = array<int64>(context, ROTATE_RECORDS) + ROTATE_RECORD_WORDS * sample;
        const int64 out_width = r[ROTATE_RECORD_OUT_WIDTH], out_height = r[ROTATE_RECORD_OUT_HEIGHT], out_depth = r[ROTATE_RECORD_OUT_DEPTH];
        const int64 depth = r[ROTATE_RECORD_IN_DEPTH], height = r[ROTATE_RECORD_IN_HEIGHT], width = r[ROTATE_RECORD_IN_WIDTH];
        const int64 plane = height * width * r[ROTATE_RECORD_CHANNELS], all = plane * depth;
        __syncthreads();
        if (threadIdx.x == 0) {
            volume = {
                (int32)depth, (int32)height, (int32)width, (int32)r[ROTATE_RECORD_CHANNELS], plane, *array<float32>(context, ROTATE_FILL),
                (float32)(width - 1), (float32)(height - 1), (float32)(depth - 1), context[ROTATE_CLAMP] != 0 && all != 0, linear, all == 0,
                all < 1ll << 31 && larger(larger(depth, height), width) <= 1 << 24,
            };
        }
        const IN *source = at<const IN>(address(context, ROTATE_INPUTS, sample));
        OUT *out = at<OUT>(address(context, ROTATE_OUTPUTS, sample));
        const int32 columns = lanes_of(out_width), lines = VOLUME_TILE / columns, across = (int32)((out_width + columns - 1) / columns);
        const int64 rows = r[ROTATE_RECORD_FRAMES] * out_depth * out_height, tiles = (rows + lines - 1) / lines * across;
        for (int64 tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
            int64 rest = tile;
            const int32 left = (int32)take(rest, across) * columns, wide = (int32)smaller((int64)columns, out_width - left);
            const int64 top = rest * lines;
            const int32 used = (int32)smaller((int64)lines, rows - top);
            __syncthreads();
            for (int32 i = threadIdx.x; i < 3 * used; i += blockDim.x) {
                const int32 axis = i / used, line = i - axis * used;
                int64 frame = top + line;
                const int64 y = take(frame, out_height), z = take(frame, out_depth);
                const float32 *m = array<float32>(context, ROTATE_MAPS) + 12 * (r[ROTATE_RECORD_MAP] + frame * r[ROTATE_RECORD_MAP_STEP]) + 4 * axis;
                const float32 step = m[0];
                float32 now = walk_of(m, (float32)y, (float32)z, true).at(left), *to = positions[axis] + line * (columns + 1);
                for (int32 k = 0; k < wide; ++k) {
                    to[k] = now - shift;
                    now += step;
                }
            }
            __syncthreads();
            const uint32 reciprocal = 0xffffffffu / (uint32)wide + 1;  // i / wide is exact for the numbers here, which are below 2**16
            for (int32 i = threadIdx.x; i < used * wide; i += blockDim.x) {
                const int32 line = wide == 1 ? i : (int32)((uint64)i * reciprocal >> 32), column = i - line * wide, place = line * (columns + 1) + column;
                const IN *from = source + (rows == out_depth * out_height ? 0 : (top + line) / (out_depth * out_height)) * all;
                OUT *to = out + ((top + line) * out_width + left + column) * volume.channels;
                voxel(from, positions[0][place], positions[1][place], positions[2][place], volume, to);
            }
        }
    }
#else
    __shared__ float32 positions[2][TILE + LINES];
    __shared__ Part part;
    FOR_SAMPLES(sample, context[ROTATE_SAMPLES]) {
        if (threadIdx.x == 0) part.look_up(context, sample);
        __syncthreads();
        const int64 tiles = part.tiles();
        for (int64 tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
            if (threadIdx.x == 0) part.begin(tile);
            __syncthreads();
            walk(part, positions);
            __syncthreads();
            if (in_quads && part.shape.quads) make_quads(part, positions);
            else make_pixels(part, positions);
            __syncthreads();
        }
        __syncthreads();
    }
#endif
}
