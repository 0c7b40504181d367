// Copy windows of decoded images from the memory of a decoder lane to the batch. A thread writes aligned words of four bytes; it combines
// each word from two source words. A source word is read whole even if only one of its bytes belongs to the window. Reading the other bytes
// is safe, because an aligned word never crosses a page.
#include "gather_tables.py"
#include "lines.cuh"

#ifndef WHOLE_WORD
#define WHOLE_WORD DEVICE // the tests redefine it, so that the memory checker permits these reads
#endif
WHOLE_WORD uint32 whole_word(const uint32 *word) { return *word; }

KERNEL gather(const int64 *context) {
    FOR_SAMPLES(sample, context[GATHER_SAMPLES]) {
        const int64 *window = at<const int64>(context[GATHER_WINDOWS]) + sample * GATHER_WINDOW_WORDS;
        const int64 pitch = window[GATHER_WINDOW_PITCH], source = window[GATHER_WINDOW_SOURCE], out = window[GATHER_WINDOW_TARGET];
        const int32 size = (int32)window[GATHER_WINDOW_ROW_BYTES], lanes = lanes_of(size / 4);
        FOR_ROWS(y, window[GATHER_WINDOW_ROWS], lanes) {
            const int64 from = source + y * pitch, to = out + y * size;
            const int32 head = smaller((int32)(-to & 3), size), words = (size - head) / 4;
            const int32 shift = 8 * (int32)((from + head) & 3);
            const uint32 *aligned = at<const uint32>((from + head) & ~(int64)3);
            FOR_COLUMNS(k, words, lanes) {
                uint32 word = whole_word(aligned + k);
                if (shift) word = word >> shift | whole_word(aligned + k + 1) << (32 - shift);
                at<uint32>(to + head)[k] = word;
            }
            FOR_COLUMNS(k, head, lanes) at<uint8>(to)[k] = at<const uint8>(from)[k];
            const int64 tail = head + 4 * words;
            FOR_COLUMNS(k, size - tail, lanes) at<uint8>(to + tail)[k] = at<const uint8>(from + tail)[k];
        }
    }
}

// Copy samples, whose bytes follow each other.
KERNEL copy_samples(const int64 *context) {
    FOR_SAMPLES(sample, context[COPIES_SAMPLES]) {
        copy_lines(
            array<int64>(context, COPIES_SOURCES)[sample], array<int64>(context, COPIES_TARGETS)[sample], array<int64>(context, COPIES_SIZES)[sample]);
    }
}
