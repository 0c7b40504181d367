// experimental.dilate, experimental.erode and experimental.median_blur: the maximum, minimum or median of a rectangle of pixels.
// Macros: IN: element type of input and output; GREATEST 1: maximum, 0: minimum.
#include "borders.cuh"
#include "dilate_erode_median.py"

#ifndef GREATEST
#define GREATEST 0
#endif

DEVICE IN chosen(IN a, IN b) { return (GREATEST ? a < b : b < a) ? b : a; }

// The maximum or minimum of a window along one axis. With a constant border, elements outside the picture are ignored.
DEVICE IN extreme(const IN *first, int64 stride, int64 place, int64 extent, int64 window, int64 anchor, int64 border) {
    IN found = first[place * stride];  // the anchor lies in the window
    for (int64 k = 0; k < window; ++k) {
        const int64 from = inside(place + k - anchor, extent, border);
        if (from >= 0) found = chosen(found, first[from * stride]);
    }
    return found;
}

KERNEL along_rows(const int64 *context) {
    FOR_SAMPLES(sample, context[RECTANGLE_LAUNCH_SAMPLES]) {
        const int64 *r = array<int64>(context, RECTANGLE_LAUNCH_RECORDS) + RECTANGLE_RECORD_WORDS * sample;
        const IN *source = at<const IN>(address(context, RECTANGLE_LAUNCH_INPUTS, sample));
        IN *out = at<IN>(context[RECTANGLE_LAUNCH_BETWEEN]) + r[RECTANGLE_RECORD_FIRST];
        const int64 channels = r[RECTANGLE_RECORD_CHANNELS], width = r[RECTANGLE_RECORD_WIDTH];
        FOR_ITEMS(i, r[RECTANGLE_RECORD_PLANES] * r[RECTANGLE_RECORD_HEIGHT] * width * channels) {
            int64 rest = i;
            const int64 channel = take(rest, channels), x = take(rest, width);
            const IN *row = source + rest * width * channels + channel;
            out[i] = extreme(row, channels, x, width, r[RECTANGLE_RECORD_WINDOW_WIDTH], r[RECTANGLE_RECORD_ANCHOR_X], context[RECTANGLE_LAUNCH_BORDER]);
        }
    }
}

KERNEL along_columns(const int64 *context) {
    FOR_SAMPLES(sample, context[RECTANGLE_LAUNCH_SAMPLES]) {
        const int64 *r = array<int64>(context, RECTANGLE_LAUNCH_RECORDS) + RECTANGLE_RECORD_WORDS * sample;
        const IN *source = at<const IN>(context[RECTANGLE_LAUNCH_BETWEEN]) + r[RECTANGLE_RECORD_FIRST];
        IN *out = at<IN>(address(context, RECTANGLE_LAUNCH_OUTPUTS, sample));
        const int64 height = r[RECTANGLE_RECORD_HEIGHT], row = r[RECTANGLE_RECORD_WIDTH] * r[RECTANGLE_RECORD_CHANNELS];
        FOR_ITEMS(i, r[RECTANGLE_RECORD_PLANES] * height * row) {
            int64 rest = i;
            const int64 column = take(rest, row), y = take(rest, height);
            const IN *first = source + rest * height * row + column;
            out[i] = extreme(first, row, y, height, r[RECTANGLE_RECORD_WINDOW_HEIGHT], r[RECTANGLE_RECORD_ANCHOR_Y], context[RECTANGLE_LAUNCH_BORDER]);
        }
    }
}

// Map an element to an unsigned key. Keys have the order of the elements.
DEVICE uint32 key_of(float32 element) {
    union { float32 real; uint32 bits; } both;
    both.real = element;
    return both.bits & 0x80000000u ? ~both.bits : both.bits | 0x80000000u;
}
template <class T> DEVICE uint32 key_of(T element) { return (uint32)element; }

template <class T> DEVICE T element_of(uint32 key) {
    if constexpr (Kind<T>::is_float) {
        union { float32 real; uint32 bits; } both;
        both.bits = key & 0x80000000u ? key & 0x7fffffffu : ~key;
        return (T)both.real;
    } else {
        return (T)key;
    }
}

// Median: the largest key that has at most half of the window's keys below it, found bit by bit.
KERNEL middle(const int64 *context) {
    FOR_SAMPLES(sample, context[RECTANGLE_LAUNCH_SAMPLES]) {
        const int64 *r = array<int64>(context, RECTANGLE_LAUNCH_RECORDS) + RECTANGLE_RECORD_WORDS * sample;
        const IN *source = at<const IN>(address(context, RECTANGLE_LAUNCH_INPUTS, sample));
        IN *out = at<IN>(address(context, RECTANGLE_LAUNCH_OUTPUTS, sample));
        const int64 height = r[RECTANGLE_RECORD_HEIGHT], width = r[RECTANGLE_RECORD_WIDTH], channels = r[RECTANGLE_RECORD_CHANNELS];
        const int64 high = r[RECTANGLE_RECORD_WINDOW_HEIGHT], wide = r[RECTANGLE_RECORD_WINDOW_WIDTH];
        FOR_ITEMS(i, r[RECTANGLE_RECORD_PLANES] * height * width * channels) {
            int64 rest = i;
            const int64 channel = take(rest, channels), x = take(rest, width), y = take(rest, height);
            const IN *plane = source + rest * height * width * channels + channel;
            uint32 found = 0;
            for (int bit = 8 * (int)sizeof(IN) - 1; bit >= 0; --bit) {
                const uint32 trial = found | (uint32)1 << bit;
                int64 less = 0;
                for (int64 dy = 0; dy < high; ++dy) {
                    const int64 from_y = inside(y + dy - r[RECTANGLE_RECORD_ANCHOR_Y], height, context[RECTANGLE_LAUNCH_BORDER]);
                    for (int64 dx = 0; dx < wide; ++dx) {
                        const int64 from_x = inside(x + dx - r[RECTANGLE_RECORD_ANCHOR_X], width, context[RECTANGLE_LAUNCH_BORDER]);
                        less += key_of(plane[(from_y * width + from_x) * channels]) < trial;
                    }
                }
                if (less <= high * wide / 2) found = trial;
            }
            out[i] = element_of<IN>(found);
        }
    }
}
