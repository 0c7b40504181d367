// Lines of 16 bytes, for kernels that move bytes or compute single elements. Wide accesses keep enough bytes in flight to use the memory's
// bandwidth. A line of the output is aligned to 16 bytes; a line of the input may begin anywhere.
#include "kernel.cuh"

#define LINE 16
struct alignas(LINE) Line {
    union {
        uint32 word[4];
        uint8 byte[LINE];
    };
};

#ifdef HOST_BUILD
WHOLE_WORD Line line_at(int64 address) { return *at<const Line>(address); }
#else
DEVICE Line line_at(int64 address) { return *at<const Line>(address); }
#endif

// The 16 bytes from `from` on. Both aligned lines that contain them are read whole. Reading the other bytes is safe, because an aligned
// line never crosses a page.
DEVICE Line load_line(int64 from) {
    const int32 inside = (int32)(from & (LINE - 1));
    if (inside == 0) return line_at(from);
    const Line low = line_at(from - inside), high = line_at(from - inside + LINE);
    const int32 bits = 8 * (inside & 3);
    // The five words from word inside / 4 on are needed, of eight words. Two selections move them to the front. Indexing at run time would
    // move the words from registers to memory.
    uint32 a[7];
    const bool by_two = inside & 8, by_one = inside & 4;
    a[0] = by_two ? low.word[2] : low.word[0];
    a[1] = by_two ? low.word[3] : low.word[1];
    a[2] = by_two ? high.word[0] : low.word[2];
    a[3] = by_two ? high.word[1] : low.word[3];
    a[4] = by_two ? high.word[2] : high.word[0];
    a[5] = by_two ? high.word[3] : high.word[1];
    #pragma unroll
    for (int32 k = 0; k < 5; ++k) a[k] = by_one ? a[k + 1] : a[k];
    Line line;
    #pragma unroll
    for (int32 k = 0; k < 4; ++k) line.word[k] = __funnelshift_r(a[k], a[k + 1], bits);
    return line;
}

// Like load_line, but only bytes in [first, end) are read. All other bytes of the line are 0.
DEVICE Line load_part(int64 from, int64 first, int64 end) {
    Line line = {};
    for (int32 k = 0; k < LINE; ++k)
        if (from + k >= first && from + k < end) line.byte[k] = *at<const uint8>(from + k);
    return line;
}

DEVICE void store_line(int64 to, const Line &line) { *at<Line>(to) = line; }

DEVICE void store_part(int64 to, int64 first, int64 end, const Line &line) {
    for (int32 k = 0; k < LINE; ++k)
        if (to + k >= first && to + k < end) *at<uint8>(to + k) = line.byte[k];
}

// Number of lines that a row of `width` bytes at address `begin` touches.
DEVICE int64 lines_of(int64 begin, int64 width) { return (width + (begin & (LINE - 1)) + LINE - 1) / LINE; }

#define AT_ONCE 4  // number of lines that a thread has in flight

// Copy `size` bytes with all threads of the blocks along x.
DEVICE void copy_lines(int64 source, int64 out, int64 size) {
    const int64 step = (int64)gridDim.x * blockDim.x, count = lines_of(out, size), base = out & -(int64)LINE;
    for (int64 first = (int64)blockIdx.x * blockDim.x + threadIdx.x; first < count; first += AT_ONCE * step) {
        Line line[AT_ONCE];
        #pragma unroll
        for (int32 k = 0; k < AT_ONCE; ++k) {
            const int64 to = base + LINE * (first + k * step), from = source + to - out;
            if (first + k * step < count) line[k] = to >= out && to + LINE <= out + size ? load_line(from) : load_part(from, source, source + size);
        }
        #pragma unroll
        for (int32 k = 0; k < AT_ONCE; ++k) {
            const int64 to = base + LINE * (first + k * step);
            if (first + k * step >= count) continue;
            if (to >= out && to + LINE <= out + size) store_line(to, line[k]);
            else store_part(to, out, out + size, line[k]);
        }
    }
}

// Compute out[i] = function(source[i]), 16 pixels per thread. Input pixels have GIVEN bytes, output pixels MADE bytes (1 or 3).
// The signature is function(const uint8 *, uint8 *).
template <int32 GIVEN, int32 MADE, class Function> DEVICE void map_pixels(int64 source, int64 out, int64 count, Function function) {
    const int32 inside = (int32)(out & (LINE - 1));
    // Number of pixels before the first pixel that begins at a line boundary. With three bytes, 3 * p + inside is a multiple of 16 for
    // p = 5 * inside, because 16 * inside is.
    const int64 before = smaller((int64)((MADE == 3 ? 5 * inside : LINE - inside) & (LINE - 1)), count);
    FOR_ITEMS(i, 1 + (count - before + LINE - 1) / LINE) {
        const int64 begin = i ? before + LINE * (i - 1) : 0, end = i ? smaller(begin + LINE, count) : before;
        if (end - begin < LINE) {
            for (int64 k = begin; k < end; ++k) function(at<const uint8>(source + GIVEN * k), at<uint8>(out + MADE * k));
            continue;
        }
        union { Line line[GIVEN]; uint8 byte[LINE * GIVEN]; } given;
        union { Line line[MADE]; uint8 byte[LINE * MADE]; } made;
        #pragma unroll
        for (int32 k = 0; k < GIVEN; ++k) given.line[k] = load_line(source + GIVEN * begin + LINE * k);
        #pragma unroll
        for (int32 k = 0; k < LINE; ++k) function(given.byte + GIVEN * k, made.byte + MADE * k);
        #pragma unroll
        for (int32 k = 0; k < MADE; ++k) store_line(out + MADE * begin + LINE * k, made.line[k]);
    }
}

// Compute out[i] = function(i, source[i]) for groups of GROUP elements (1 or 3), four groups per thread. The signature is
// function(int64 i, const In *, Out *). Numbers outside of [0, count) are possible; their results are dropped.
template <int32 GROUP, class In, class Out, class Function> DEVICE void map_numbered(int64 source, int64 out, int64 count, Function function) {
    static_assert(GROUP == 1 || GROUP == 3, "other groups begin packs elsewhere");
    // A thread's groups must begin at a pack boundary of the output. The first thread therefore begins `shift` elements before the output.
    const int32 behind = behind_pack<Out>(out), shift = GROUP == 1 ? behind : 3 * (-behind & (PACK - 1));
    const int64 elements = GROUP * count;
    FOR_ITEMS(i, (elements + shift + GROUP * PACK - 1) / (GROUP * PACK)) {
        const int64 first = GROUP * PACK * i - shift;  // a multiple of GROUP
        Pack<In> given[GROUP];
        Pack<Out> made[GROUP] = {};
        #pragma unroll
        for (int32 k = 0; k < GROUP; ++k) given[k] = row_pack<In>(source, 1, first + PACK * k, elements);
        #pragma unroll
        for (int32 k = 0; k < PACK; ++k) {
            In group[GROUP];
            Out result[GROUP];
            #pragma unroll
            for (int32 c = 0; c < GROUP; ++c) group[c] = given[(GROUP * k + c) / PACK].element[(GROUP * k + c) % PACK];
            function(first / GROUP + k, group, result);
            #pragma unroll
            for (int32 c = 0; c < GROUP; ++c) made[(GROUP * k + c) / PACK].element[(GROUP * k + c) % PACK] = result[c];
        }
        #pragma unroll
        for (int32 k = 0; k < GROUP; ++k) put(out, first + PACK * k, elements, made[k]);
    }
}

template <int32 GROUP, class In, class Out, class Function> DEVICE void map_groups(int64 source, int64 out, int64 count, Function function) {
    map_numbered<GROUP, In, Out>(source, out, count, [function](int64, const In *in, Out *made) { function(in, made); });
}

// The faster of map_pixels (bytes) and map_groups (all other types).
template <int32 GROUP, class In, class Out, class Function> DEVICE void map_all(int64 source, int64 out, int64 count, Function function) {
    if constexpr (Same<In, uint8>::value && Same<Out, uint8>::value) map_pixels<GROUP, GROUP>(source, out, count, function);
    else map_groups<GROUP, In, Out>(source, out, count, function);
}
