// Copy frames of sequences. Frames follow each other in the output.
#include "../../device/lines.cuh"
#include "element_extract_tables.py"

// Along y there is a place for each frame of each sample.
KERNEL frames(const int64 *context) {
    const int64 most = context[FRAME_COPY_MOST];
    FOR_SAMPLES(place, context[FRAME_COPY_SAMPLES] * most) {
        const int64 sample = place / most, k = place % most;
        if (k >= (context[FRAME_COPY_COUNTS] ? address(context, FRAME_COPY_COUNTS, sample) : context[FRAME_COPY_COUNT])) continue;
        const int64 begin = context[FRAME_COPY_BEGINS] ? address(context, FRAME_COPY_BEGINS, sample) : 0;
        const int64 frame = address(context, FRAME_COPY_FRAMES, begin + k), size = address(context, FRAME_COPY_FRAME_BYTES, sample);
        copy_lines(address(context, FRAME_COPY_INPUTS, sample) + frame * size, address(context, FRAME_COPY_OUTPUTS, sample) + k * size, size);
    }
}
