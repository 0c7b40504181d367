// copy: bytes.
#include "lines.cuh"
#include "copy.py"

KERNEL copy(const int64 *context) {
    FOR_SAMPLES(sample, context[COPY_SAMPLES]) {
        copy_lines(address(context, COPY_INPUTS, sample), address(context, COPY_OUTPUTS, sample), array<int64>(context, COPY_SIZES)[sample]);
    }
}
