// box_encoder: `winners` finds the best anchor of each box. `encode` chooses a box for each anchor and writes it relative to the anchor.
#include "box_encoder_tables.py"
#include "kernel.cuh"

struct Box { float32 left, top, right, bottom; };

DEVICE float32 iou(const Box &box, const Box &anchor) {
    const float32 left = larger(box.left, anchor.left), top = larger(box.top, anchor.top);
    const float32 right = smaller(box.right, anchor.right), bottom = smaller(box.bottom, anchor.bottom);
    if (!(right > left && bottom > top)) return 0;
    const float32 inside = (right - left) * (bottom - top);
    const float32 own = (box.right - box.left) * (box.bottom - box.top);
    const float32 others = (anchor.right - anchor.left) * (anchor.bottom - anchor.top);
    return inside / (own + others - inside);
}

// Write a box as (centre x, centre y, width, height).
DEVICE void centre(const Box &box, float32 *out) {
    out[0] = 0.5f * (box.left + box.right);
    out[1] = 0.5f * (box.top + box.bottom);
    out[2] = box.right - box.left;
    out[3] = box.bottom - box.top;
}

// Replace box `out` by its encoding relative to `anchor`. Both are given as (centre x, centre y, width, height).
DEVICE void relate(float32 *out, const float32 *anchor, const float32 *numbers) {
    const float32 scale = numbers[ENCODING_SCALE];
    for (int k = 0; k < 4; ++k) {
        const float32 value = k < 2 ? (out[k] * scale - anchor[k] * scale) / (anchor[2 + k] * scale)
                                    : logf((out[k] * scale) / (anchor[k] * scale));
        out[k] = (value - numbers[ENCODING_MEAN_X + k]) / numbers[ENCODING_STD_X + k];
    }
}

KERNEL winners(const int64 *context) {
    const Box *anchors = array<Box>(context, BOX_ENCODER_ANCHORS);
    FOR_SAMPLES(sample, context[BOX_ENCODER_SAMPLES]) {
        const Box *boxes = at<const Box>(address(context, BOX_ENCODER_BOXES, sample));
        int32 *found = at<int32>(context[BOX_ENCODER_WINNERS]) + array<int64>(context, BOX_ENCODER_STARTS)[sample];
        FOR_ITEMS(b, array<int64>(context, BOX_ENCODER_COUNTS)[sample]) {
            const Box box = boxes[b];
            float32 best = -1;
            int32 winner = 0;
            for (int64 a = 0; a < context[BOX_ENCODER_ANCHOR_COUNT]; ++a) {
                const float32 overlap = iou(box, anchors[a]);
                if (overlap >= best) best = overlap, winner = (int32)a;  // the last of equal overlaps wins, as on the CPU
            }
            found[b] = winner;
        }
    }
}

KERNEL encode(const int64 *context) {
    const float32 *numbers = array<float32>(context, BOX_ENCODER_NUMBERS);
    FOR_SAMPLES(sample, context[BOX_ENCODER_SAMPLES]) {
        const Box *boxes = at<const Box>(address(context, BOX_ENCODER_BOXES, sample));
        const int32 *labels = at<const int32>(address(context, BOX_ENCODER_LABELS, sample));
        float32 *out = at<float32>(address(context, BOX_ENCODER_ENCODED, sample));
        int32 *classes = at<int32>(address(context, BOX_ENCODER_CLASSES, sample));
        const int32 *found = at<const int32>(context[BOX_ENCODER_WINNERS]) + array<int64>(context, BOX_ENCODER_STARTS)[sample];
        const int64 count = array<int64>(context, BOX_ENCODER_COUNTS)[sample];
        FOR_ITEMS(a, context[BOX_ENCODER_ANCHOR_COUNT]) {
            const Box anchor = array<Box>(context, BOX_ENCODER_ANCHORS)[a];
            const float32 criteria = numbers[ENCODING_CRITERIA];
            float32 best = criteria;
            int64 chosen = -1, claimed = -1;
            for (int64 b = 0; b < count; ++b) {
                const float32 overlap = iou(boxes[b], anchor);
                if (overlap > criteria && overlap >= best) best = overlap, chosen = b;
                if (found[b] == (int32)a) claimed = b;  // the last box with this best anchor wins, as on the CPU
            }
            if (claimed >= 0) chosen = claimed;
            float32 box[4] = {0, 0, 0, 0}, own[4];
            centre(anchor, own);
            if (chosen >= 0) {
                centre(boxes[chosen], box);
                if (context[BOX_ENCODER_OFFSETS]) relate(box, own, numbers);
            } else if (!context[BOX_ENCODER_OFFSETS]) {
                for (int k = 0; k < 4; ++k) box[k] = own[k];
            }
            for (int k = 0; k < 4; ++k) out[4 * a + k] = box[k];
            classes[a] = chosen >= 0 ? labels[chosen] : 0;
        }
    }
}
