// Sixteen bytes at a time: what moves bytes or works point by point reads and writes memory in lines, so that enough bytes are in flight.
// A line of the output begins at a multiple of 16; the input's may lie anywhere.
#include "kernel.cuh"

#define LINE 16
struct alignas(LINE) Line {
    union {
        uint32 word[4];
        uint8 byte[LINE];
    };
};

#ifdef HOST_BUILD
WHOLE_WORD uint32 word_at(int64 address) { return *at<const uint32>(address); }
WHOLE_WORD Line line_at(int64 address) { return *at<const Line>(address); }
#else
DEVICE uint32 word_at(int64 address) { return *at<const uint32>(address); }
DEVICE Line line_at(int64 address) { return *at<const Line>(address); }
#endif

// The 16 bytes from `from` on. Whole words are read, also those of which only a part is asked for: they never cross a page.
DEVICE Line load_line(int64 from) {
    const int32 inside = (int32)(from & (LINE - 1));
    if (inside == 0) return line_at(from);
    const Line low = line_at(from - inside), high = line_at(from - inside + LINE);
    const int32 bits = 8 * (inside & 3);
    // Of the eight words the five from word inside / 4 on are needed; two choices bring them to the front without an index.
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

// The same where bytes before `first` and from `end` on are not asked for, and stay 0.
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

// Lines that a row of `width` bytes from address `begin` on touches, and how many at most.
DEVICE int64 lines_of(int64 begin, int64 width) { return (width + (begin & (LINE - 1)) + LINE - 1) / LINE; }
