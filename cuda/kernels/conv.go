package kernels

import (
	"fmt"

	"gotrain/cuda/driver"
)

// Math is how a convolution multiplies, and with it how its operands are stored. All maths add in float32, and all convolutions
// leave float32, see graph.Conv; gradients by data are stored as dy is.
type Math uint8

const (
	FFMA  Math = iota // float32 values, float32 products
	TF32              // float32 values, rounded to tf32 for products on the tensor cores
	BF16              // bfloat16 values, products on the tensor cores
	Mixed             // FFMA with dy in bfloat16: the first convolution of a bfloat16 plan, whose images are float32
)

func (m Math) String() string { return [...]string{"f32", "tf32", "bf16", "mixed"}[m] }

// packed is the math as the weights see it.
func (m Math) packed() Math {
	if m == Mixed {
		return FFMA
	}
	return m
}

// bytes is the size of a stored value of x and of packed weights.
func (m Math) bytes() int {
	if m == BF16 {
		return 2
	}
	return 4
}

// dyBytes is the size of a stored value of dy.
func (m Math) dyBytes() int {
	if m == BF16 || m == Mixed {
		return 2
	}
	return 4
}

// chunks is how many 16-byte chunks the channels of one pixel take.
func chunks(channels, bytes int) int { return Padded(channels) * bytes / 16 }

// ConvShape is a convolution of x [N][H][W][C] to y [N][OH][OW][K]. Channels are counted without padding.
type ConvShape struct{ N, H, W, C, K, Kernel, Stride, Pad int }

func (c ConvShape) OH() int { return (c.H+2*c.Pad-c.Kernel)/c.Stride + 1 }
func (c ConvShape) OW() int { return (c.W+2*c.Pad-c.Kernel)/c.Stride + 1 }

func (c ConvShape) String() string {
	return fmt.Sprintf("%dx%d convolution by %d with padding %d of %dx%dx%dx%d to %d channels", c.Kernel, c.Kernel, c.Stride, c.Pad,
		c.N, c.H, c.W, c.C, c.K)
}

// Flops is the floating-point operations of the forward pass, and of each gradient, products with the padding included.
func (c ConvShape) Flops() int { return 2 * c.forwardPixels() * c.K * c.C * c.Kernel * c.Kernel }

// Bytes is the least that the three products move to and from memory: each operand once.
func (c ConvShape) Bytes(m Math) (forward, backwardData, backwardWeights int) {
	x, y := c.N*c.H*c.W*Padded(c.C), c.N*c.OH()*c.OW()*Padded(c.K)
	packed, arena := c.PackedBytes(m)/2, 4*c.weights()
	return x*m.bytes() + packed + y*4, y*m.dyBytes() + packed + x*m.dyBytes(), x*m.bytes() + y*m.dyBytes() + arena
}

// forwardPixels is the pixels of y, phasePixels those of the largest phase of dx.
func (c ConvShape) forwardPixels() int { return c.N * c.OH() * c.OW() }
func (c ConvShape) phasePixels() int   { return c.N * ceil(c.H, c.Stride) * ceil(c.W, c.Stride) }

func (c ConvShape) weights() int { return c.K * c.C * c.Kernel * c.Kernel }

// PackedBytes is the memory of a convolution's packed weights: the operand of the forward pass, [K][kernel][kernel][C], and behind
// it that of the backward pass by data, [C][kernel][kernel][K], both with padded channels.
func (c ConvShape) PackedBytes(m Math) int {
	return 2 * Padded(c.K) * Padded(c.C) * c.Kernel * c.Kernel * m.bytes()
}

// PackedConv is a convolution whose weights are to be packed.
type PackedConv struct {
	Shape   ConvShape
	Math    Math
	Weights driver.Pointer // [K][C][kernel][kernel] float32, in the parameter arena
	Packed  driver.Pointer // PackedBytes
}

const packedPerBlock = 1024 // see conv_pack.cu

// PackTable is the table that PackWeights reads on the device: one entry a convolution. All are of one math; Mixed packs as FFMA.
func PackTable(convs []PackedConv) []byte {
	var b []byte
	first := 0
	for _, c := range convs {
		b = append(b, pack(c.Weights, c.Packed, c.Shape.K, c.Shape.C, c.Shape.Kernel*c.Shape.Kernel, first)...)
		first += c.packBlocks()
	}
	return b
}

func (c PackedConv) packBlocks() int { return ceil(c.Shape.PackedBytes(FFMA)/4, packedPerBlock) }

// PackWeights packs the weights of all convolutions of one math, once a step: it rounds them from the parameter arena, in which
// they stay. table is PackTable(convs) on the device.
//
// It reads each weight twice and writes it twice, gathered, out of L2: for a ResNet-20 3 MB, 2 us; for a ResNet-50 300 MB, 0.2 ms.
func (s *Set) PackWeights(m Math, convs []PackedConv, table driver.Pointer) driver.Launch {
	blocks := 0
	for _, c := range convs {
		blocks += c.packBlocks()
	}
	return s.launch("conv_pack_"+m.packed().String(), driver.Dim{X: blocks, Y: 1, Z: 1}, threads, table, len(convs))
}

// tile is the share of the pixels and channels of the destination that a block computes. speed is what it reaches of the largest
// tile's rate, by its loads for a product and by its instructions beside products: an estimate, until a card is measured.
type tile struct {
	pixels, channels, threads int
	speed                     float64
}

func (t tile) String() string { return fmt.Sprintf("%dx%d", t.pixels, t.channels) }

func tiles(m Math) []tile {
	if m.packed() == FFMA {
		return []tile{{128, 16, 128, 0.65}, {128, 32, 128, 0.95}, {32, 32, 256, 0.5}, {64, 64, 256, 0.95}, {128, 64, 128, 1}, {128, 128, 256, 1}}
	}
	return []tile{{128, 16, 128, 0.28}, {128, 32, 128, 0.5}, {32, 32, 128, 0.3}, {64, 64, 128, 0.6}, {128, 64, 128, 0.8}, {128, 128, 256, 1}}
}

// What chooseTile takes for a card, whatever the card, since the order of sums goes with the tile: so many multiprocessors, each of
// which wants so many threads to be busy.
const (
	multiprocessors = 128
	busyThreads     = 256
)

// chooseTile takes the tile with which the multiprocessors are done first, by rounds of blocks times the time of a block.
func chooseTile(m Math, pixels, channels, phases int) tile {
	best, least := tile{}, 0.0
	for _, t := range tiles(m) {
		rounds := ceil(ceil(pixels, t.pixels)*ceil(channels, t.channels)*phases, multiprocessors)
		busy := min(1, float64(rounds*t.threads)/busyThreads)
		if cost := float64(rounds*t.pixels*t.channels) / (t.speed * busy); best.threads == 0 || cost < least {
			best, least = t, cost
		}
	}
	return best
}

// ConvForward computes y, float32, from x and packed weights: Flops operations, and Bytes, besides which each value of x is read
// again from L1 or L2 for every tap and for every tile of channels.
//
// What bounds it, counted in the inner loops of the code for sm_90; the shares are estimates. FFMA: four of five instructions are
// multiply-adds, and loads of 16 bytes from shared memory keep up with them where a thread has 8x8 outputs, so that 65 to 75 % of the
// float32 peak are to be had, and 50 % at 16 channels (8x4 outputs). BF16 and TF32 from 64 channels on: a warp issues 140 and 210
// instructions for 32 mma, which keeps the tensor cores of an A100 busy to 60 % and those of an H100, which mma.sync alone cannot fill,
// to 35 %. With 16 and 32 channels, 8 and 16 mma take 135 to 175 instructions: issue and memory bound it alike, at half of the memory's
// rate.
func (s *Set) ConvForward(c ConvShape, m Math, x, packed, y driver.Pointer) driver.Launch {
	return s.convForward(chooseTile(m, c.forwardPixels(), Padded(c.K), 1), c, m, x, packed, y)
}

func (s *Set) convForward(t tile, c ConvShape, m Math, x, packed, y driver.Pointer) driver.Launch {
	grid := driver.Dim{X: ceil(c.forwardPixels(), t.pixels), Y: ceil(Padded(c.K), t.channels), Z: 1}
	return s.launch(fmt.Sprintf("conv_forward_%s_%s", m.packed(), t), grid, t.threads, x, packed, y, c.N,
		c.H, c.W, chunks(c.C, m.bytes()), c.OH(), c.OW(), Padded(c.K), c.Kernel, c.Stride, c.Pad)
}

// ConvBackwardData computes all of dx from dy and packed weights, as the forward pass does. Where the stride is over 1, the pixels of
// dx fall into stride^2 phases that see different taps: Flops is all that is computed then too. Mixed has none, for images have no
// gradient.
func (s *Set) ConvBackwardData(c ConvShape, m Math, dy, packed, dx driver.Pointer) driver.Launch {
	return s.convBackwardData(chooseTile(m, c.phasePixels(), Padded(c.C), c.Stride*c.Stride), c, m, dy, packed, dx)
}

func (s *Set) convBackwardData(t tile, c ConvShape, m Math, dy, packed, dx driver.Pointer) driver.Launch {
	packed += driver.Pointer(c.PackedBytes(m) / 2)
	grid := driver.Dim{X: ceil(c.phasePixels(), t.pixels), Y: ceil(Padded(c.C), t.channels), Z: c.Stride * c.Stride}
	return s.launch(fmt.Sprintf("conv_backward_data_%s_%s", m, t), grid, t.threads, dy, packed, dx, c.N,
		c.OH(), c.OW(), chunks(c.K, m.dyBytes()), c.H, c.W, Padded(c.C), c.Kernel, c.Stride, c.Pad)
}

// How ConvBackwardWeights splits its sum over the pixels: into as many threads as keep a large card busy, and no more, for each
// leaves a partial sum of the whole tile.
const (
	weightThreads = 1 << 16 // in all
	weightPixels  = 128     // of a split at least
)

// weightsPlan is how ConvBackwardWeights runs. It depends on the shape alone, and so does the order of the sums.
type weightsPlan struct {
	rows, columns        int // of a tile: output channels; taps by padded input channels
	threads              int
	tilesDown, tilesOver int
	splits, pixels       int // of the sum; of one split
}

func (p weightsPlan) String() string {
	return fmt.Sprintf("%dx%d in %d splits", p.rows, p.columns, p.splits)
}

func (p *weightsPlan) tileOver(c ConvShape) {
	p.tilesDown, p.tilesOver = ceil(c.K, p.rows), ceil(c.Kernel*c.Kernel*Padded(c.C), p.columns)
}

func (c ConvShape) weightsPlan() weightsPlan {
	p := weightsPlan{rows: 16, columns: 64, threads: 128}
	for p.rows < 64 && p.rows < c.K {
		p.rows *= 2
	}
	if c.K >= 128 && c.Kernel*c.Kernel*Padded(c.C) >= 128 {
		p = weightsPlan{rows: 128, columns: 128, threads: 256}
	}
	p.tileOver(c)
	pixels := c.forwardPixels()
	splits := max(1, min(weightThreads/p.threads/(p.tilesDown*p.tilesOver), pixels/weightPixels))
	p.pixels = ceil(ceil(pixels, splits), 64) * 64 // whole stages of every kernel
	p.splits = ceil(pixels, p.pixels)
	return p
}

// ScratchBytes is the memory for partial sums that ConvBackwardWeights needs, whatever is in it.
func (c ConvShape) ScratchBytes(Math) int {
	return c.weightsPlan().splits * c.K * c.Kernel * c.Kernel * Padded(c.C) * 4
}

// ConvBackwardWeights computes dw [K][C][kernel][kernel], float32, in the gradient arena, from x and dy: partial sums, and then
// their sum. Beside Flops and Bytes, x is read again from L1 or L2 for every tap and dy for every 64 columns; partial sums, of
// ScratchBytes, are written and read once, and stay in L2.
//
// FFMA is bound as in the forward pass. On the tensor cores, a warp issues 145 (BF16, 16 channels) to 315 (TF32, whose operands have to
// be turned around word by word) instructions for 8 to 32 mma: 50 to 70 % of what the forward pass reaches.
func (s *Set) ConvBackwardWeights(c ConvShape, m Math, x, dy, dw, scratch driver.Pointer) []driver.Launch {
	return s.convBackwardWeights(c.weightsPlan(), c, m, x, dy, dw, scratch)
}

func (s *Set) convBackwardWeights(p weightsPlan, c ConvShape, m Math, x, dy, dw, scratch driver.Pointer) []driver.Launch {
	return []driver.Launch{
		s.launch(fmt.Sprintf("conv_backward_weights_%s_%dx%d", m, p.rows, p.columns), driver.Dim{X: p.tilesOver, Y: p.tilesDown, Z: p.splits}, p.threads,
			x, dy, scratch, c.N, c.H, c.W, chunks(c.C, m.bytes()), c.OH(), c.OW(), chunks(c.K, m.dyBytes()), c.K, c.Kernel, c.Stride, c.Pad, p.pixels),
		s.SumWeights(c, scratch, dw, p.splits),
	}
}

// SumWeights adds so many partial sums of dw, each [K][kernel][kernel][C] float32 with padded C, in their order, to dw
// [K][C][kernel][kernel] in the gradient arena. With one it only moves what cuDNN leaves, which pads K too.
func (s *Set) SumWeights(c ConvShape, partial, dw driver.Pointer, splits int) driver.Launch {
	taps := c.Kernel * c.Kernel
	return s.launch("conv_weights_sum", driver.Dim{X: ceil(c.K*taps*Padded(c.C), 32), Y: 1, Z: 1}, threads,
		partial, dw, c.K, c.C, Padded(c.C), taps, splits)
}
