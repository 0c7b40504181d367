// preemphasis_filter: each sample less a part of the one before.
#include "samples.cuh"
#include "preemphasis_filter.py"

DEVICE void item(int64 i, const Sample &sample) {
    const IN0 *source = sample.input<IN0>(0);
    const int64 border = sample.record[PREEMPHASIS_BORDER];
    float32 before = 0;
    if (i) before = (float32)source[i - 1];
    else if (border == 1 || (border == 2 && sample.items() == 1)) before = (float32)source[0];
    else if (border == 2) before = (float32)source[1];
    sample.output<OUT0>(0)[i] = convert<OUT0>((float32)source[i] - sample.numbers[0] * before);
}
