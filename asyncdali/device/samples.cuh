// The kernel of an operator that computes each sample by a function of arrays (operators/samples.py).
// Macros: INPUTS: number of inputs; IN0, ..., OUT0, ...: element types. The source that includes this header defines `item`.
#include "../sampling/philox.cuh"
#include "../sampling/stream_tables.py"
#include "../compiled/sample_tables.py"

struct Sample {
    const int64 *context;
    int64 index;
    const int64 *record;
    const float32 *numbers;

    // The first element of this sample in input or output `k`.
    template <class T> DEVICE_MEMBER const T *input(int k) const { return at<const T>(address(context, SAMPLE_WORDS + k, index)); }
    template <class T> DEVICE_MEMBER T *output(int k) const { return at<T>(address(context, SAMPLE_WORDS + INPUTS + k, index)); }

    // Work items of this sample: by default elements of output 0.
    DEVICE_MEMBER int64 items() const { return array<int64>(context, SAMPLE_ITEMS)[index]; }

    // Scratch memory, which all work items of the sample share.
    DEVICE_MEMBER float32 *scratch() const {
        return at<float32>(context[SAMPLE_SCRATCH]) + array<int64>(context, SAMPLE_SCRATCH_STARTS)[index];
    }

    // Number `number` of the sample's random stream, in [0, 1). The record begins with the fields of POSITION (stream_tables.py).
    DEVICE_MEMBER float32 uniform(int64 number) const {
        const Counter counter = {(uint64)record[STREAM_POSITION_KEY], (uint64)record[STREAM_POSITION_HI], (uint64)record[STREAM_POSITION_LO]};
        const uint32 bits = words_from(counter, (uint64)record[STREAM_POSITION_PHASE] + number, 1).word[0];
        return (float32)(bits >> 8) * 5.9604644775390625e-8f;
    }
};

// Compute work item `i` of a sample. By default a sample has one work item for each element of output 0.
DEVICE void item(int64 i, const Sample &sample);

KERNEL samples(const int64 *context) {
    FOR_SAMPLES(index, context[SAMPLE_SAMPLES]) {
        const int64 *record = array<int64>(context, SAMPLE_RECORDS) + context[SAMPLE_LENGTH] * index;
        const float32 *numbers = array<float32>(context, SAMPLE_NUMBERS) + context[SAMPLE_WIDTH] * index;
        const Sample sample = {context, index, record, numbers};
        FOR_ITEMS(i, array<int64>(context, SAMPLE_ITEMS)[index]) item(i, sample);
    }
}
