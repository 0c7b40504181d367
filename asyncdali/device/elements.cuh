// The kernel of an operator that computes each element from one input element (operators/elements.py). Macros: IN, OUT: element types.
// The source that includes this header defines `element`, the GPU version of the operator's method of that name.
#include "lines.cuh"
#include "../compiled/element_tables.py"

DEVICE float32 element(float32 value, const float32 *numbers);

KERNEL elements(const int64 *context) {
    FOR_SAMPLES(sample, context[ELEMENTS_SAMPLES]) {
        const float32 *numbers = array<float32>(context, ELEMENTS_NUMBERS) + context[ELEMENTS_WIDTH] * sample;
        const int64 source = address(context, ELEMENTS_INPUTS, sample), out = address(context, ELEMENTS_OUTPUTS, sample);
        map_all<1, IN, OUT>(source, out, array<int64>(context, ELEMENTS_COUNTS)[sample], [numbers](const IN *in, OUT *made) {
            *made = convert<OUT>(element(real(value_of(*in)), numbers));
        });
    }
}
