// Copy one piece (a strided block of elements) of every sample. Later pieces overwrite earlier pieces, so each piece has a separate launch.
// Macros: IN, OUT element types; AXES: rank of a piece, at least 2 for `reversed`, `planes` and `interleaved`; DENSE 1: a piece's elements
// are contiguous in the output; CHANNELS: of `planes`, 2 to 4.
#include "lines.cuh"
#include "pieces_tables.py"

struct Move {
    int64 source, target, rows;
    const int64 *extents, *strides, *targets;

    DEVICE_MEMBER Move(const int64 *context, int64 sample) {
        const int64 *r = array<int64>(context, MOVE_RECORDS) + sample * (MOVE_HEAD_WORDS + 3 * AXES);
        source = r[MOVE_HEAD_SOURCE] + (context[MOVE_COMMON] ? context[MOVE_COMMON] : array<int64>(context, MOVE_INPUTS)[sample]);
        target = r[MOVE_HEAD_TARGET] + array<int64>(context, MOVE_OUTPUTS)[sample];
        rows = r[MOVE_HEAD_ROWS];
        extents = r + MOVE_HEAD_WORDS;
        strides = extents + AXES;
        targets = strides + AXES;
    }
    // The start of row `row` in the input and in the output.
    DEVICE_MEMBER void find_row(int64 row, int64 &from, int64 &to) const {
        from = source;
        to = target;
        #pragma unroll
        for (int32 k = AXES - 2; k >= 0; --k) {
            const int64 place = k ? take(row, extents[k]) : row;
            from += place * strides[k];
            to += place * targets[k];
        }
    }
    // The largest number of lines that a row of `width` bytes touches. Rows that all start at line boundaries need no extra line.
    DEVICE_MEMBER int64 lines(int64 width) const {
        int64 begins = target;
        #pragma unroll
        for (int32 k = 0; k < AXES - 1; ++k) begins |= targets[k];
        return (width + (begins & (LINE - 1) ? LINE - 1 : 0) + LINE - 1) / LINE;
    }
};

// Rows that are contiguous in the input and in the output.
KERNEL run(const int64 *context) {
    const int64 step = (int64)gridDim.x * blockDim.x;
    FOR_SAMPLES(sample, context[MOVE_SAMPLES]) {
        const Move move(context, sample);
        const int64 width = move.extents[AXES - 1] * (int64)sizeof(OUT), lines = move.lines(width), count = move.rows * lines;
        for (int64 first = (int64)blockIdx.x * blockDim.x + threadIdx.x; first < count; first += AT_ONCE * step) {
            Line line[AT_ONCE];
            int64 begin[AT_ONCE], to[AT_ONCE];
            #pragma unroll
            for (int32 k = 0; k < AT_ONCE; ++k) {
                int64 rest = first + k * step, from;
                if (rest >= count) continue;
                const int64 number = AXES > 1 ? take(rest, lines) : rest;
                move.find_row(AXES > 1 ? rest : 0, from, begin[k]);
                to[k] = (begin[k] & -(int64)LINE) + LINE * number;
                const int64 at_line = from + to[k] - begin[k];
                line[k] = to[k] >= begin[k] && to[k] + LINE <= begin[k] + width ? load_line(at_line) : load_part(at_line, from, from + width);
            }
            #pragma unroll
            for (int32 k = 0; k < AT_ONCE; ++k) {
                if (first + k * step >= count) continue;
                if (to[k] >= begin[k] && to[k] + LINE <= begin[k] + width) store_line(to[k], line[k]);
                else store_part(to[k], begin[k], begin[k] + width, line[k]);
            }
        }
    }
}

// Rows that repeat one element.
KERNEL fill(const int64 *context) {
    FOR_SAMPLES(sample, context[MOVE_SAMPLES]) {
        const Move move(context, sample);
        const int64 width = move.extents[AXES - 1] * (int64)sizeof(OUT), lines = move.lines(width);
        FOR_ITEMS(i, move.rows * lines) {
            int64 rest = i, from, begin;
            const int64 number = AXES > 1 ? take(rest, lines) : rest;
            move.find_row(AXES > 1 ? rest : 0, from, begin);
            const int64 to = (begin & -(int64)LINE) + LINE * number;
            union { Line line; OUT element[LINE / sizeof(OUT)]; } both;
            const OUT value = *at<const OUT>(from);
            #pragma unroll
            for (int32 k = 0; k < (int32)(LINE / sizeof(OUT)); ++k) both.element[k] = value;
            if (to >= begin && to + LINE <= begin + width) store_line(to, both.line);
            else store_part(to, begin, begin + width, both.line);
        }
    }
}

// The general case: any strides, with type conversion. A thread computes a line of neighbouring elements. Divisions locate the first
// element of the line in the piece; additions locate the others.
KERNEL elements(const int64 *context) {
    const int32 each = LINE / sizeof(OUT);
    FOR_SAMPLES(sample, context[MOVE_SAMPLES]) {
        const Move move(context, sample);
        int64 extents[AXES], steps[AXES], moved[AXES];  // steps in the input and output when this axis advances and the inner axes restart
        #pragma unroll
        for (int32 k = 0; k < AXES; ++k) {
            extents[k] = move.extents[k];
            steps[k] = move.strides[k] - (k + 1 < AXES ? move.extents[k + 1] * move.strides[k + 1] : 0);
            moved[k] = move.targets[k] - (k + 1 < AXES ? move.extents[k + 1] * move.targets[k + 1] : 0);
        }
        const int64 count = move.rows * extents[AXES - 1];
        // Lines of a contiguous piece start at line boundaries in memory.
        const int32 before = DENSE ? (int32)(move.target & (LINE - 1)) / (int32)sizeof(OUT) : 0;
        FOR_ITEMS(i, (count + before + each - 1) / each) {
            const int64 begin = larger(i * each - before, (int64)0), end = smaller((i + 1) * each - before, count);
            int64 rest = begin, from = move.source, to = move.target, place[AXES];
            #pragma unroll
            for (int32 k = AXES - 1; k >= 0; --k) {
                place[k] = k ? take(rest, extents[k]) : rest;
                from += place[k] * move.strides[k];
                to += place[k] * move.targets[k];
            }
            union { Line line; OUT element[LINE / sizeof(OUT)]; } both;
            #pragma unroll
            for (int32 j = 0; j < each; ++j) {
                if (begin + j >= end) break;
                const OUT element = sliced<OUT>(*at<const IN>(from));
                if (DENSE && end - begin == each) both.element[j] = element;
                else *at<OUT>(to) = element;
                bool carry = true;
                #pragma unroll
                for (int32 k = AXES - 1; k >= 0; --k) {
                    if (carry) {
                        from += steps[k];
                        if (!DENSE || end - begin != each) to += moved[k];
                        carry = k && ++place[k] == extents[k];
                        if (carry) place[k] = 0;
                    }
                }
            }
            if (DENSE && end - begin == each) store_line(to, both.line);
        }
    }
}

// Rows of few elements, for an output with gaps. A thread moves a row, so neighbouring threads access neighbouring memory.
KERNEL short_rows(const int64 *context) {
    FOR_SAMPLES(sample, context[MOVE_SAMPLES]) {
        Move move(context, sample);
        int64 words[3 * AXES];  // in registers: a load from the table would wait for each store, because the output may be anywhere
        #pragma unroll
        for (int32 k = 0; k < 3 * AXES; ++k) words[k] = move.extents[k];
        move.extents = words, move.strides = words + AXES, move.targets = words + 2 * AXES;
        const int64 step = move.strides[AXES - 1], moved = move.targets[AXES - 1];
        const int32 width = (int32)move.extents[AXES - 1];
        FOR_ITEMS(row, move.rows) {
            int64 from, to;
            move.find_row(row, from, to);
            for (int32 first = 0; first < width; first += PACK, from += PACK * step, to += PACK * moved) {
                IN given[PACK];  // loaded together: a load waits for the store before it
                #pragma unroll
                for (int32 k = 0; k < PACK; ++k) given[k] = *at<const IN>(from + smaller(k, width - 1 - first) * step);
                #pragma unroll
                for (int32 k = 0; k < PACK; ++k) {
                    if (first + k < width) *at<OUT>(to + k * moved) = sliced<OUT>(given[k]);
                }
            }
        }
    }
}

// Mirror rows of pixels of three bytes, for a contiguous output. A thread moves four pixels, which are three words of the output. Samples
// that are not mirrored have a single row and are copied.
KERNEL reversed(const int64 *context) {
    FOR_SAMPLES(sample, context[MOVE_SAMPLES]) {
        const Move move(context, sample);
        if (move.rows <= 1 && move.extents[AXES - 1] != 3) {
            copy_lines(move.source, move.target, move.rows * move.extents[AXES - 1]);
            continue;
        }
        const int64 width = move.extents[AXES - 2], count = move.rows;
        const int64 before = smaller(move.target & 3, count);  // number of pixels before the first pixel that begins at a word boundary
        FOR_ITEMS(i, 1 + (count - before + 3) / 4) {
            const int64 begin = i ? before + 4 * (i - 1) : 0, end = i ? smaller(begin + 4, count) : before;
            int64 rest = begin, from, to;
            const int64 column = take(rest, width);
            if (end - begin == 4 && column + 4 <= width) {
                move.find_row(begin, from, to);
                const int64 first = from - 9, word = first & -4ll;  // `first`: the last of the four output pixels
                const int32 bits = 8 * (int32)(first & 3);
                const uint32 a = word_at(word), b = word_at(word + 4), c = word_at(word + 8), d = bits ? word_at(word + 12) : 0;
                const uint32 low = __funnelshift_r(a, b, bits), mid = __funnelshift_r(b, c, bits), high = __funnelshift_r(c, d, bits);
                uint32 *out = at<uint32>(to);
                out[0] = __byte_perm(mid, high, 0x2765);
                out[1] = __byte_perm(__byte_perm(mid, high, 0x43), __byte_perm(low, mid, 0x43), 0x5410);
                out[2] = __byte_perm(low, mid, 0x2105);
                continue;
            }
            for (int64 k = begin; k < end; ++k) {
                move.find_row(k, from, to);
                for (int32 c = 0; c < 3; ++c) at<uint8>(to)[c] = at<const uint8>(from)[c];
            }
        }
    }
}

// Split pixels of CHANNELS elements into planes. The piece's last axes are the channels and the pixels. The output is contiguous.
#ifndef CHANNELS
#define CHANNELS 3
#endif
KERNEL planes(const int64 *context) {
    const int32 each = LINE / sizeof(OUT), pixel = CHANNELS * sizeof(OUT);
    union Pixels { Line line[CHANNELS]; OUT element[CHANNELS * each]; };
    FOR_SAMPLES(sample, context[MOVE_SAMPLES]) {
        const Move move(context, sample);
        const int64 count = move.extents[AXES - 1], width = count * (int64)sizeof(OUT), plane = move.targets[AXES - 2];
        // If all planes have the same alignment, a thread writes one line of every plane. Otherwise a thread writes one line of one plane.
        const bool alike = plane % LINE == 0;
        const int32 together = alike ? CHANNELS : 1;
        const int64 lines = (width + 2 * LINE - 1) / LINE;
        FOR_ITEMS(i, move.rows / together * lines) {
            int64 rest = i, from, begin;
            const int64 number = take(rest, lines);
            move.find_row(rest * together, from, begin);
            const int64 to = (begin & -(int64)LINE) + LINE * number, first = (to - begin) / (int64)sizeof(OUT);
            // `from` is a channel of the first pixel. Loading whole pixels from there ends inside the next pixel, so another pixel must
            // follow the line.
            if (to >= begin && first + each < count) {
                Pixels given;
                #pragma unroll
                for (int32 k = 0; k < CHANNELS; ++k) given.line[k] = load_line(from + pixel * first + LINE * k);
                #pragma unroll
                for (int32 c = 0; c < CHANNELS; ++c) {
                    union { Line line; OUT element[each]; } made;
                    #pragma unroll
                    for (int32 k = 0; k < each; ++k) made.element[k] = given.element[CHANNELS * k + c];
                    if (c < together) store_line(to + c * plane, made.line);
                }
                continue;
            }
            for (int64 k = larger(first, (int64)0); k < smaller(first + each, count); ++k)
                for (int32 c = 0; c < together; ++c) at<OUT>(begin + c * plane)[k] = at<const OUT>(from + pixel * k)[c];
        }
    }
}

// Interleave three planes into pixels. The piece's last axes are the pixels (contiguous in each plane) and the channels. The output is
// contiguous.
KERNEL interleaved(const int64 *context) {
    const int32 each = LINE / sizeof(OUT), pixel = 3 * sizeof(OUT);
    FOR_SAMPLES(sample, context[MOVE_SAMPLES]) {
        const Move move(context, sample);
        const int64 count = move.extents[AXES - 2], plane = move.strides[AXES - 1], groups = 2 + count / each;
        FOR_ITEMS(i, move.rows / larger(count, (int64)1) * groups) {
            int64 rest = i, from, to;
            const int64 number = take(rest, groups);
            move.find_row(rest * count, from, to);
            // Number of pixels before the first pixel that begins at a line boundary: 3 * p + inside is a multiple of `each` for
            // p = 5 * inside, because 16 * inside is.
            const int32 inside = (int32)(to & (LINE - 1)) / (int32)sizeof(OUT);
            const int64 before = smaller((int64)(5 * inside & (each - 1)), count);
            const int64 begin = number ? before + each * (number - 1) : 0, end = number ? smaller(begin + each, count) : before;
            if (end - begin == each) {
                union { Line line; OUT element[each]; } given[3];
                union { Line line[3]; OUT element[3 * each]; } made;
                #pragma unroll
                for (int32 c = 0; c < 3; ++c) given[c].line = load_line(from + c * plane + (int64)sizeof(OUT) * begin);
                #pragma unroll
                for (int32 k = 0; k < 3 * each; ++k) made.element[k] = given[k % 3].element[k / 3];
                #pragma unroll
                for (int32 k = 0; k < 3; ++k) store_line(to + pixel * begin + LINE * k, made.line[k]);
                continue;
            }
            for (int64 k = begin; k < end; ++k)
                for (int32 c = 0; c < 3; ++c) at<OUT>(to + pixel * k)[c] = at<const OUT>(from + c * plane)[k];
        }
    }
}
