// Colour operators: x * factor + addend, and a 3 x 3 matrix with an offset.
// Macros: IN, OUT element types.
#define RESIDENT 3  // Without a limit the compiler takes 124 registers, and a multiprocessor runs two blocks at a time.
#include "lines.cuh"
#include "color.cuh"

template <int32 GROUP, class Color> DEVICE void color(const int64 *context) {
    FOR_SAMPLES(sample, context[ELEMENTS_SAMPLES]) {
        Color function;
        function.look_up(context, sample);
        const int64 source = address(context, ELEMENTS_INPUTS, sample), target = address(context, ELEMENTS_OUTPUTS, sample);
        map_all<GROUP, IN, OUT>(source, target, array<int64>(context, ELEMENTS_COUNTS)[sample], function);
    }
}

KERNEL linear(const int64 *context) { color<1, ColorFactor<1>>(context); }

KERNEL matrix(const int64 *context) { color<3, ColorMatrix>(context); }
