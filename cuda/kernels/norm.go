package kernels

import (
	"gotrain/cuda/driver"
	"gotrain/graph"
)

// Norm is a batch norm over images of one shape. It has two launches in each direction: a reduction, and a map. Both read x once, so
// that forward moves 3 values for each that x has (4 with an addend), and backward 5 or 6; memory bounds them.
//
// x is float32 in any precision, as a convolution leaves it; the others have the type T.
type Norm struct {
	T                          graph.DType
	Shape                      graph.Shape // of x
	X                          driver.Pointer
	Gamma, Beta, Mean, InvStd  driver.Pointer // float32 [C]; the last two are results of the forward pass
	RunningMean, RunningVar    driver.Pointer // forward and inference; float32 [C]
	Addend                     driver.Pointer // forward and inference: 0 without an addition
	Y                          driver.Pointer // backward: 0 where there is no rectification, or where x tells which values pass it
	ReLU                       bool
	Epsilon, Update            float64
	DY                         []driver.Pointer // backward: one or two
	DX, DGamma, DBeta, DAddend driver.Pointer   // backward: DAddend is 0 without an addition; it may be any of DY, and DX the first
	Scratch                    driver.Pointer   // NormScratch bytes
	Tickets                    driver.Pointer   // NormTickets words that are zero, and are left so
	Share                      driver.Pointer   // 0, or where the reduction leaves this worker's graph.Share, NormShare bytes; see MergeMoments and MergeSums
}

// normTile is how a batch norm goes through its rows; a row is a pixel of an image.
type normTile struct {
	rows, channels           int
	wide                     int // threads of a block along channels
	chunk, group             int // rows of a block in the reduction and in the map
	chunks, groups, vertical int // blocks
}

func normTileOf(s graph.Shape) normTile {
	t := normTile{rows: s[0] * s[2] * s[3], channels: s[1]}
	quads := Padded(s[1]) / 4
	t.wide = min(quads, 32)
	t.vertical = ceil(quads, t.wide)
	high := threads / t.wide
	most := min(512, max(16, 1024/t.vertical)) // chunks: enough for every multiprocessor, few enough to add up
	t.chunk = max(high*8, ceil(ceil(t.rows, most), high)*high)
	t.chunks = ceil(t.rows, t.chunk)
	t.group = high * 4
	if ceil(t.rows, t.group)*t.vertical > 2048 {
		t.group = high * 16
	}
	t.groups = ceil(t.rows, t.group)
	return t
}

// params are the normTile as the kernels' struct shape.
func (t normTile) params() []any { return []any{int64(t.rows), t.channels, t.wide, t.chunk, t.group} }

func (t normTile) reduction() driver.Dim { return driver.Dim{X: t.chunks, Y: t.vertical, Z: 1} }
func (t normTile) mapping() driver.Dim   { return driver.Dim{X: t.groups, Y: t.vertical, Z: 1} }

// NormScratch is the bytes of scratch memory of a batch norm over x of a shape, NormTickets the words of tickets, NormShare the bytes
// of a share.
func NormScratch(x graph.Shape) int {
	return 4 * (2*Padded(x[1])*normTileOf(x).chunks + 2*x[1])
}
func NormTickets(x graph.Shape) int { return normTileOf(x).vertical }
func NormShare(x graph.Shape) int   { return 8 * (1 + 2*x[1]) }

// coefficients lie behind the partial sums: [2][C].
func (n *Norm) coefficients() driver.Pointer {
	return n.Scratch + driver.Pointer(NormScratch(n.Shape)-8*n.Shape[1])
}

// NormForward normalizes by the batch's statistics, and lets the running ones follow. With a Share, nothing is normalized by its first
// launch, and MergeMoments goes between the two.
func (s *Set) NormForward(n *Norm) (reduce, apply driver.Launch) {
	t := normTileOf(n.Shape)
	reduce = s.launch("norm_moments", t.reduction(), threads, append([]any{n.X, n.Scratch, n.Tickets, n.Mean, n.InvStd, n.RunningMean,
		n.RunningVar, n.Share, n.Epsilon, n.Update}, t.params()...)...)
	apply = s.launch("norm_apply"+suffix(n.T), t.mapping(), threads, append([]any{n.X, n.Gamma, n.Beta, n.Mean, n.InvStd, n.Addend, n.Y,
		n.ReLU}, t.params()...)...)
	return reduce, apply
}

// NormInference normalizes by the running statistics, in one launch.
func (s *Set) NormInference(n *Norm) driver.Launch {
	t := normTileOf(n.Shape)
	return s.launch("norm_inference"+suffix(n.T), t.mapping(), threads, append([]any{n.X, n.Gamma, n.Beta, n.RunningMean, n.RunningVar,
		n.Addend, n.Y, float32(n.Epsilon), n.ReLU}, t.params()...)...)
}

// NormBackward gives DX, DGamma, DBeta and DAddend. With a Share, MergeSums goes between the two launches.
func (s *Set) NormBackward(n *Norm) (reduce, apply driver.Launch) {
	t := normTileOf(n.Shape)
	dy, dy2 := n.DY[0], driver.Pointer(0)
	if len(n.DY) == 2 {
		dy2 = n.DY[1]
	}
	reduce = s.launch("norm_backward_sums"+suffix(n.T), t.reduction(), threads, append([]any{n.X, n.Y, dy, dy2, n.Gamma, n.Beta, n.Mean, n.InvStd,
		n.DAddend, n.Scratch, n.Tickets, n.DGamma, n.DBeta, n.coefficients(), n.Share, n.ReLU}, t.params()...)...)
	y, relu := n.Y, n.ReLU
	if n.DAddend != 0 { // the reduction has kept the sum behind the rectification there, maybe in the place of an operand
		dy, dy2, y, relu = n.DAddend, 0, 0, false
	}
	apply = s.launch("norm_backward_data"+suffix(n.T), t.mapping(), threads, append([]any{n.X, y, dy, dy2, n.Gamma, n.Beta, n.Mean, n.InvStd,
		n.coefficients(), n.DX, relu}, t.params()...)...)
	return reduce, apply
}

// MergeMoments gives the mean, the deviation and the running statistics of a synchronized batch norm, from the shares of all workers, one
// after the other in their order; Update is the weight of all their images together.
func (s *Set) MergeMoments(n *Norm, shares driver.Pointer, workers int) driver.Launch {
	c := n.Shape[1]
	return s.launch("norm_merge_moments", flat(c), threads, shares, workers, c, n.Mean, n.InvStd, n.RunningMean, n.RunningVar, n.Epsilon, n.Update)
}

// MergeSums gives what the second launch of NormBackward needs, from the shares of all workers.
func (s *Set) MergeSums(n *Norm, shares driver.Pointer, workers int) driver.Launch {
	c := n.Shape[1]
	return s.launch("norm_merge_sums", flat(c), threads, shares, workers, c, n.InvStd, n.coefficients())
}
