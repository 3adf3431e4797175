package cpu

// #include "calls.h"
// #include "onednn.h"
// #include "program.h"
//
// static int gt_supports(const gt_kernels *k, gt_shape s, int c_out, int what) { return k->winograd_supports(s, c_out, what); }
// static size_t gt_scratch(const gt_kernels *k, gt_shape s, int c_out, int threads, int what) {
//     return k->winograd_scratch(s, c_out, threads, what);
// }
// static size_t gt_strided_floats(const gt_strided_call *c) {
//     return c->k->strided_scratch(c->s.s, c->s.y.c, c->s.window, c->s.threads);
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
		l.program.winograd = append(l.program.winograd, o)
		return l.winograd(what, x, weight, y), nil
	}
	if emit := l.strided(what, w, x, weight, y); emit != nil {
		return emit, nil
	}
	return l.direct(what, w, x, weight, y)
}

// strided lowers the gradient of the weights of a strided convolution to our own kernel, or returns nil where oneDNN is better.
func (l *lowering) strided(what C.int, w C.gt_window, x, weight, y *graph.Tensor) func() error {
	if l.e.options.Direct || what != C.GT_BACKWARD_WEIGHTS || !slowInOneDNN(w) || x.DType != graph.BFloat16 || y.DType != graph.BFloat16 {
		return nil
	}
	c := C.gt_strided_call{k: l.kernels}
	c.s.s, c.s.y, c.s.threads = shape(x), shape(y), l.threads
	c.s.window = C.gt_taps{kernel: w.kernel, stride: w.stride, pad: w.pad}
	floats := C.gt_strided_floats(&c)
	if floats == 0 {
		return nil
	}
	l.need(0, 4*int(floats))
	return func() error {
		c.s.scratch = (*C.float)(l.e.scratch.at)
		c.s.x, c.s.dy, c.s.dweight = l.address(x), l.address(y), (*C.float)(l.address(weight))
		C.gt_program_add(l.calls, (*[0]byte)(C.gt_call_strided_weights), unsafe.Pointer(&c), C.size_t(unsafe.Sizeof(c)))
		return nil
	}
}

// slowInOneDNN tells of which gradients of weights oneDNN 2.6 makes slow work in bfloat16: three times that in float32.
func slowInOneDNN(w C.gt_window) bool { return w.kernel > 1 && w.stride > 1 }

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
//
// A gradient of weights takes operands of one type. Where they differ (images are float32), and for the strided
// windows that our own kernel does not take, they are cast to float32 first.
func (l *lowering) direct(what C.int, w C.gt_window, x, weight, y *graph.Tensor) (func() error, error) {
	var conv, reorder *C.gt_primitive
	var casts [2]*C.gt_primitive // of x and y
	back, operand := C.int(0), C.int(C.GT_WEIGHTS)
	if what == C.GT_BACKWARD_WEIGHTS {
		back, operand = 1, C.GT_DIFF_WEIGHTS
		if x.DType != y.DType || slowInOneDNN(w) {
			w.bf16 = 0
			for i, t := range []*graph.Tensor{x, y} {
				if t.DType != graph.BFloat16 {
					continue
				}
				if err := status(C.gt_cast(l.e.engine, w, C.int(i), 1, 0, &casts[i]), "preparing a cast"); err != nil {
					return nil, err
				}
				l.own(casts[i])
			}
		}
	}
	if err := status(C.gt_convolution(l.e.engine, what, w, &conv), "preparing a convolution"); err != nil {
		return nil, err
	}
	l.own(conv)
	if err := status(C.gt_weights_reorder(l.e.engine, conv, w, back, &reorder), "preparing a reorder of weights"); err != nil {
		return nil, err
	}
	end, cast := 0, [2]int{} // places in the scratch memory; the weights come first
	if reorder != nil {
		l.own(reorder)
		end = l.need(end, int(C.gt_primitive_bytes(conv, operand)))
	}
	for i, q := range casts {
		if cast[i] = end; q != nil {
			end = l.need(end, int(C.gt_primitive_bytes(q, C.GT_DST)))
		}
	}
	for _, q := range []*C.gt_primitive{conv, reorder, casts[0], casts[1]} {
		if q != nil {
			l.need(end, int(C.gt_primitive_bytes(q, C.GT_SCRATCHPAD)))
		}
	}
	return func() error {
		plain, liked, in, out := l.address(weight), l.address(weight), l.address(x), l.address(y)
		for i, from := range []*unsafe.Pointer{&in, &out} {
			if casts[i] == nil {
				continue
			}
			to := l.e.scratch.add(cast[i])
			if err := l.bind(casts[i], end, map[C.int]unsafe.Pointer{C.GT_SRC: *from, C.GT_DST: to}); err != nil {
				return err
			}
			*from = to
		}
		if reorder != nil {
			liked = l.e.scratch.at
		}
		at := map[C.int]unsafe.Pointer{operand: liked}
		switch what {
		case C.GT_FORWARD:
			at[C.GT_SRC], at[C.GT_DST] = in, out
		case C.GT_BACKWARD_DATA:
			at[C.GT_DIFF_SRC], at[C.GT_DIFF_DST] = in, out
		default:
			at[C.GT_SRC], at[C.GT_DIFF_DST] = in, out
		}
		if reorder != nil && back == 0 {
			if err := l.bind(reorder, end, map[C.int]unsafe.Pointer{C.GT_SRC: plain, C.GT_DST: liked}); err != nil {
				return err
			}
		}
		if err := l.bind(conv, end, at); err != nil {
			return err
		}
		if reorder != nil && back == 1 {
			return l.bind(reorder, end, map[C.int]unsafe.Pointer{C.GT_SRC: liked, C.GT_DST: plain})
		}
		return nil
	}, nil
}
