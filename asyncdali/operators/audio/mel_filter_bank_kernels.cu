// Multiply one axis of every sample by a matrix. Sums are float64.
#include "kernel.cuh"
#include "mel_filter_bank.py"

KERNEL axis_matrix(const int64 *context) {
    const int64 rows = context[AXIS_MATRIX_ROWS], columns = context[AXIS_MATRIX_COLUMNS];
    FOR_SAMPLES(sample, context[AXIS_MATRIX_SAMPLES]) {
        const int64 *sizes = array<int64>(context, AXIS_MATRIX_SIZES) + AXIS_SIZES_WORDS * sample;
        const int64 outer = sizes[AXIS_SIZES_OUTER], inner = sizes[AXIS_SIZES_INNER];
        const float32 *source = at<const float32>(address(context, AXIS_MATRIX_INPUTS, sample));
        float32 *out = at<float32>(address(context, AXIS_MATRIX_OUTPUTS, sample));
        FOR_ITEMS(i, outer * rows * inner) {
            int64 rest = i;
            const int64 place = take(rest, inner), row = take(rest, rows);
            const int64 *range = array<int64>(context, AXIS_MATRIX_RANGES) + COLUMN_RANGE_WORDS * row;
            const int64 begin = range[COLUMN_RANGE_BEGIN], end = range[COLUMN_RANGE_END];
            const float64 *weights = array<float64>(context, AXIS_MATRIX_MATRIX) + row * columns;
            const float32 *column = source + rest * columns * inner + place;
            float64 total = 0;
            for (int64 c = begin; c < end; ++c) total += weights[c] * (float64)column[c * inner];
            out[i] = (float32)total;
        }
    }
}
