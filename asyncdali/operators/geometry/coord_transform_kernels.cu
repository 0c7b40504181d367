// coord_transform: a matrix and an offset for points. The table is that of coord_transform_kernels.py, then 6 samples.
// Macros: IN, OUT element types.
#include "kernel.cuh"

KERNEL points(const int64 *context) {
    const int64 rows = context[3], columns = context[4];
    FOR_SAMPLES(sample, context[6]) {
        const float32 *matrix = array<float32>(context, 5) + sample * rows * (columns + 1);
        const IN *source = at<const IN>(address(context, 0, sample));
        OUT *out = at<OUT>(address(context, 1, sample));
        FOR_ITEMS(i, array<int64>(context, 2)[sample]) {
            for (int64 row = 0; row < rows; ++row) {
                const float32 *m = matrix + row * (columns + 1);
                float32 total = 0;
                for (int64 column = 0; column < columns; ++column) total += m[column] * (float32)source[i * columns + column];
                out[i * rows + row] = convert<OUT>(total + m[columns]);
            }
        }
    }
}
