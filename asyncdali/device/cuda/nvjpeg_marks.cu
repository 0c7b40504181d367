// Marks in the targets of a GPU's JPEG decoders. A decoder that skips a picture, although it reports success, leaves the mark behind.
#include "kernel.cuh"
#include "nvjpeg_tables.py"

#define MARK_BYTES 16

DEVICE uint8 mark_byte(int64 k) { return (uint8)(0xa7 + 59 * k); }

KERNEL mark(const int64 *context) {
    FOR_ITEMS(i, context[MARKS_SAMPLES] * MARK_BYTES)
        at<uint8>(address(context, MARKS_PLACES, i / MARK_BYTES))[i % MARK_BYTES] = mark_byte(i % MARK_BYTES);
}

KERNEL find_marks(const int64 *context) {
    FOR_ITEMS(i, context[MARKS_SAMPLES]) {
        const uint8 *place = at<const uint8>(address(context, MARKS_PLACES, i));
        bool found = true;
        for (int k = 0; k < MARK_BYTES; ++k) found = found && place[k] == mark_byte(k);
        at<uint8>(context[MARKS_FOUND])[i] = found;
    }
}
