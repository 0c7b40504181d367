// coord_transform: a matrix and an offset for points. See coord_transform.py.
// Macros: IN, OUT element types.
#include "kernel.cuh"
#include "coord_transform.py"

KERNEL points(const int64 *context) {
    const int64 rows = context[COORD_TRANSFORM_ROWS], columns = context[COORD_TRANSFORM_COLUMNS];
    FOR_SAMPLES(sample, context[COORD_TRANSFORM_SAMPLES]) {
        const float32 *matrix = array<float32>(context, COORD_TRANSFORM_MATRICES) + sample * rows * (columns + 1);
        const IN *source = at<const IN>(address(context, COORD_TRANSFORM_INPUTS, sample));
        OUT *out = at<OUT>(address(context, COORD_TRANSFORM_OUTPUTS, sample));
        FOR_ITEMS(i, array<int64>(context, COORD_TRANSFORM_POINTS)[sample]) {
            for (int64 row = 0; row < rows; ++row) {
                const float32 *m = matrix + row * (columns + 1);
                float32 total = 0;
                for (int64 column = 0; column < columns; ++column) total += m[column] * (float32)value_of(source[i * columns + column]);
                out[i * rows + row] = convert<OUT>(total + m[columns]);
            }
        }
    }
}
