// copy: bytes. The table is that of copy_kernels.py, then 3 samples.
#include "kernel.cuh"

KERNEL copy(const int64 *context) {
    FOR_SAMPLES(sample, context[3]) {
        const uint8 *source = at<const uint8>(address(context, 0, sample));
        uint8 *out = at<uint8>(address(context, 1, sample));
        const int64 size = array<int64>(context, 2)[sample];
        int64 done = 0;
        if ((((int64)source | (int64)out) & 7) == 0) {
            const int64 words = size / 8;
            FOR_ITEMS(i, words) ((uint64 *)out)[i] = ((const uint64 *)source)[i];
            done = words * 8;
        }
        FOR_ITEMS(i, size - done) out[done + i] = source[done + i];
    }
}
