package cpu

// #include "calls.h"
// #include "onednn.h"
// #include "program.h"
//
// static int gt_supports(const gt_kernels *k, gt_shape s, int c_out, int what) { return k->winograd_supports(s, c_out, what); }
// static size_t gt_scratch(const gt_kernels *k, gt_shape s, int c_out, int threads, int what) {
//     return k->winograd_scratch(s, c_out, threads, what);
// }
import "C"

import (
	"unsafe"

	"gotrain/graph"
)

// convolution lowers a convolution or one of its gradients. x and y are the forward input and output or their gradients,
// weight is the weight or its gradient.
func (l *lowering) convolution(o *graph.Op, what C.int, x, weight, y *graph.Tensor) (func() error, error) {
	w := window(o, x)
	w.c_out = C.int(y.Shape[1])
	if x.Role == graph.Input {
		w.plain = 1
	}
	if !l.e.options.Direct && w.plain == 0 && w.kernel == 3 && w.stride == 1 && w.pad == 1 &&
		C.gt_supports(l.kernels, shape(x), w.c_out, what) != 0 {
		return l.winograd(what, x, weight, y), nil
	}
	return l.direct(what, w, x, weight, y)
}

func (l *lowering) winograd(what C.int, x, weight, y *graph.Tensor) func() error {
	c := C.gt_winograd_call{k: l.kernels}
	c.w.s, c.w.c_out, c.w.threads = shape(x), C.int(y.Shape[1]), l.threads
	l.need(0, 4*int(C.gt_scratch(l.kernels, c.w.s, c.w.c_out, l.threads, what)))
	return func() error {
		c.w.scratch = (*C.float)(l.e.scratch.at)
		var run *[0]byte
		switch what {
		case C.GT_FORWARD:
			run = (*[0]byte)(C.gt_call_winograd_forward)
			c.w.x, c.w.weight, c.w.y = l.address(x), (*C.float)(l.address(weight)), (*C.float)(l.address(y))
		case C.GT_BACKWARD_DATA:
			run = (*[0]byte)(C.gt_call_winograd_backward_data)
			c.w.dx, c.w.weight, c.w.dy = l.address(x), (*C.float)(l.address(weight)), l.address(y)
		default:
			run = (*[0]byte)(C.gt_call_winograd_backward_weights)
			c.w.x, c.w.dweight, c.w.dy = l.address(x), (*C.float)(l.address(weight)), l.address(y)
		}
		C.gt_program_add(l.calls, run, unsafe.Pointer(&c), C.size_t(unsafe.Sizeof(c)))
		return nil
	}
}

// direct lowers to oneDNN's convolution, with a reorder between the arena's plain weights and the layout that it likes.
// Images are float32; for the gradient of the first weights, which oneDNN takes of operands of one type only, they are cast
// to that of the output's gradient.
func (l *lowering) direct(what C.int, w C.gt_window, x, weight, y *graph.Tensor) (func() error, error) {
	var conv, reorder, cast *C.gt_primitive
	back, operand := C.int(0), C.int(C.GT_WEIGHTS)
	if what == C.GT_BACKWARD_WEIGHTS {
		back, operand = 1, C.GT_DIFF_WEIGHTS
		if x.DType != y.DType {
			w.bf16 = 1
			if err := status(C.gt_cast(l.e.engine, w, &cast), "preparing a cast"); err != nil {
				return nil, err
			}
			l.own(cast)
		}
	}
	if err := status(C.gt_convolution(l.e.engine, what, w, &conv), "preparing a convolution"); err != nil {
		return nil, err
	}
	l.own(conv)
	if err := status(C.gt_weights_reorder(l.e.engine, conv, w, back, &reorder), "preparing a reorder of weights"); err != nil {
		return nil, err
	}
	images, scratchpad := 0, 0
	if reorder != nil {
		l.own(reorder)
		images = l.need(0, int(C.gt_primitive_bytes(conv, operand)))
		scratchpad = images
	}
	if cast != nil {
		scratchpad = l.need(images, int(C.gt_primitive_bytes(cast, C.GT_DST)))
	}
	for _, q := range []*C.gt_primitive{conv, reorder, cast} {
		if q != nil {
			l.need(scratchpad, int(C.gt_primitive_bytes(q, C.GT_SCRATCHPAD)))
		}
	}
	return func() error {
		plain, liked, in := l.address(weight), l.address(weight), l.address(x)
		if cast != nil {
			in = l.e.scratch.add(images)
			if err := l.bind(cast, scratchpad, map[C.int]unsafe.Pointer{C.GT_SRC: l.address(x), C.GT_DST: in}); err != nil {
				return err
			}
		}
		if reorder != nil {
			liked = l.e.scratch.at
		}
		at := map[C.int]unsafe.Pointer{operand: liked}
		switch what {
		case C.GT_FORWARD:
			at[C.GT_SRC], at[C.GT_DST] = in, l.address(y)
		case C.GT_BACKWARD_DATA:
			at[C.GT_DIFF_SRC], at[C.GT_DIFF_DST] = in, l.address(y)
		default:
			at[C.GT_SRC], at[C.GT_DIFF_DST] = in, l.address(y)
		}
		if reorder != nil && back == 0 {
			if err := l.bind(reorder, scratchpad, map[C.int]unsafe.Pointer{C.GT_SRC: plain, C.GT_DST: liked}); err != nil {
				return err
			}
		}
		if err := l.bind(conv, scratchpad, at); err != nil {
			return err
		}
		if reorder != nil && back == 1 {
			return l.bind(reorder, scratchpad, map[C.int]unsafe.Pointer{C.GT_SRC: liked, C.GT_DST: plain})
		}
		return nil
	}, nil
}
