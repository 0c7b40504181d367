// The kernel of an operator that computes each element from one input element (operators/elements.py). Macro: T: element type.
// The source that includes this header defines `element`, the GPU version of the operator's method of that name.
#include "lines.cuh"
#include "../compiled/element_tables.py"

DEVICE float32 element(float32 value, const float32 *numbers);

KERNEL elements(const int64 *context) {
    FOR_SAMPLES(sample, context[ELEMENTS_SAMPLES]) {
        const float32 *numbers = array<float32>(context, ELEMENTS_NUMBERS) + context[ELEMENTS_WIDTH] * sample;
        const int64 source = address(context, ELEMENTS_INPUTS, sample), out = address(context, ELEMENTS_OUTPUTS, sample);
        map_groups<1, T, T>(source, out, array<int64>(context, ELEMENTS_COUNTS)[sample], [numbers](const T *in, T *made) {
            *made = convert<T>(element(real(*in), numbers));
        });
    }
}
