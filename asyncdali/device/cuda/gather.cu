// Windows of decoded images, from wherever a lane left them to the batch. Table: 0 where windows begin, 1 bytes from row to row, 2 rows,
// 3 bytes of a row, 4 targets (int64[samples] each), 5 samples.
#include "kernel.cuh"

KERNEL gather(const int64 *context) {
    FOR_SAMPLES(sample, context[5]) {
        const int64 pitch = address(context, 1, sample), row = address(context, 3, sample);
        const uint8 *source = at<const uint8>(address(context, 0, sample));
        uint8 *out = at<uint8>(address(context, 4, sample));
        const int64 chunks = (row + 3) / 4;
        FOR_ITEMS(i, address(context, 2, sample) * chunks) {
            int64 y = i;
            const int64 x = 4 * take(y, chunks);
            const int64 end = smaller(x + 4, row);
            for (int64 k = x; k < end; ++k) out[y * row + k] = source[y * pitch + k];
        }
    }
}
