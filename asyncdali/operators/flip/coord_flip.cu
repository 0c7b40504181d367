// coord_flip: mirror points.
#include "samples.cuh"
#include "coord_flip.py"

DEVICE void item(int64 i, const Sample &sample) {
    const int64 k = i % sample.record[COORD_FLIP_LENGTH];
    const float32 coordinate = sample.input<IN0>(0)[i], center = sample.numbers[sample.record[COORD_FLIP_PLACE_0 + k]];
    sample.output<OUT0>(0)[i] = sample.record[COORD_FLIP_MIRRORED_0 + k] ? 2.0f * center - coordinate : coordinate;
}
