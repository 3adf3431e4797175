package main

import (
	"fmt"
	"strings"
)

// limit is what bounds a family of kernels, those whose names begin with a prefix, and what share of it they are expected to reach on an
// A100 or H100 at the sizes of ResNet-20 with a minibatch of 1024, and of ResNet-50. The shares are estimates until a card has been
// measured.
type limit struct {
	prefix string
	work   string // bytes or operations
	bound  string
	share  string
}

var known = []limit{
	{"conv_forward_f32", "2·N·OH·OW·K·C·k² flop", "float32 multiply-adds", "65–75 %; 50 % at 16 channels"},
	{"conv_forward_tf32", "the same", "tensor cores; below 64 channels instructions and memory alike", "60 % (A100), 35 % (H100); below 64 channels 50 % of memory"},
	{"conv_forward_bf16", "the same", "as tf32", "as tf32"},
	{"conv_backward_data_f32", "the same", "as forward", "as forward"},
	{"conv_backward_data_tf32", "the same", "as forward", "as forward"},
	{"conv_backward_data_bf16", "the same", "as forward", "as forward"},
	{"conv_backward_weights", "the same", "as forward; the sum over pixels is split over blocks", "as forward; on tensor cores 50–70 % of it"},
	{"conv_weights_sum", "reads splits × 4 bytes, writes 4 bytes a weight", "memory", "60 %; small ones the launch"},
	{"conv_pack", "reads 4 bytes, writes 8 or 16 bytes a weight, once a step", "memory", "50 %; small nets the launch"},
	{"gather", "reads 1 byte, writes 4 or 2 a value, 8 channels for 3", "memory", "70 %"},
	{"interleave", "reads 4 bytes, writes 4 or 2 a value", "memory", "70 %"},
	{"norm_moments", "reads 4 bytes a value of x", "memory", "80 %; small layers the launch"},
	{"norm_apply", "reads 4 bytes (and an addend), writes 4 or 2 a value", "memory", "85 %"},
	{"norm_inference", "as norm_apply", "memory", "85 %"},
	{"norm_backward_sums", "reads x and dy (and dy2, y; writes the addend's gradient)", "memory", "75 %"},
	{"norm_backward_data", "reads x and dy (and dy2, y), writes dx", "memory", "80 %"},
	{"norm_merge", "some hundred bytes a channel and worker", "latency", "the launch"},
	{"relu", "reads 1 or 2, writes 1 value", "memory", "85 %"},
	{"add_results", "24 bytes a worker", "latency", "the launch"},
	{"add", "reads 2, writes 1 value", "memory", "85 %"},
	{"subsample", "reads and writes each value of the smaller image once; backward writes the larger", "memory", "70 %"},
	{"max_pool_backward", "reads x, y, dy about twice from cache, writes dx", "L1 and instructions", "40 % of memory"},
	{"max_pool", "reads x 2.25 times, mostly from L1, writes y", "memory", "60 %"},
	{"average_pool_backward", "writes 4 or 2 bytes a value", "memory", "80 %"},
	{"average_pool", "reads 4 or 2 bytes a value", "memory", "60 %"},
	{"dense", "2·N·in·out flop", "float32 multiply-adds, by loads from shared memory", "20 %; small ones the launch"},
	{"softmax_cross_entropy", "reads 4, writes 4 bytes a logit", "latency: some µs at 1024 samples", "the launch"},
	{"sum_squares", "reads 4 bytes, adds 1 float64 product a value", "memory; float64 on cards that have little of it", "80 %"},
	{"update_parameters", "reads 8, writes 4 bytes a parameter; 12 and 8 with momentum, 16 and 12 with Adam", "memory", "85 %"},
	{"encode_32", "reads 4, writes 4 bytes a value; 8 and 8 with residuals", "memory", "70 %"},
	{"encode_16", "reads 8, writes 6 bytes a value", "memory", "70 %"},
	{"encode_1", "reads 8, writes 4 bytes and a bit a value; the second pass hits L1 or L2", "memory; latency where buckets have few columns", "50 %"},
	{"encode", "reads 8, writes 4 bytes and the bits a value; the second pass hits L1 or L2", "memory; latency where buckets have few columns", "45 %"},
	{"decode", "reads the messages, writes 4 bytes a value", "memory", "60 %"},
	{"put_headers", "32 bytes a message", "latency", "the launch"},
}

// limits is the table of what bounds the kernels that there are; a family that none has, or a kernel of none, is an error.
func limits(all []usage) (string, error) {
	used := map[string]bool{}
	for _, u := range all {
		l, ok := limitOf(u.kernel)
		if !ok {
			return "", fmt.Errorf("tools/ptxas/limits.go says nothing of what bounds kernel %s", u.kernel)
		}
		used[l.prefix] = true
	}
	var b strings.Builder
	b.WriteString("| kernels | work | bound by | expected share |\n|---|---|---|---|\n")
	for _, l := range known {
		if !used[l.prefix] {
			return "", fmt.Errorf("tools/ptxas/limits.go has %s, of which there is no kernel", l.prefix)
		}
		fmt.Fprintf(&b, "| `%s…` | %s | %s | %s |\n", l.prefix, l.work, l.bound, l.share)
	}
	return b.String(), nil
}

// limitOf is the first family that a kernel belongs to.
func limitOf(kernel string) (limit, bool) {
	for _, l := range known {
		if strings.HasPrefix(kernel, l.prefix) {
			return l, true
		}
	}
	return limit{}, false
}
