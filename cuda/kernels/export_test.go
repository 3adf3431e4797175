package kernels

import "gotrain/cuda/driver"

// ConvForwards are launches of the forward pass with every tile that there is, each for itself.
func (s *Set) ConvForwards(c ConvShape, m Math, x, packed, y driver.Pointer) (all []driver.Launch) {
	for _, t := range tiles(m) {
		all = append(all, s.convForward(t, c, m, x, packed, y))
	}
	return all
}

// ConvBackwardDatas are launches of the gradient by data with every tile.
func (s *Set) ConvBackwardDatas(c ConvShape, m Math, dy, packed, dx driver.Pointer) (all []driver.Launch) {
	for _, t := range tiles(m) {
		all = append(all, s.convBackwardData(t, c, m, dy, packed, dx))
	}
	return all
}

// SplitWeights are launches of the gradient by weights with every tile, each split over as few pixels as can be. Scratch memory
// of SplitScratch is enough.
func (s *Set) SplitWeights(c ConvShape, m Math, x, dy, dw, scratch driver.Pointer) (all [][]driver.Launch) {
	for _, p := range []weightsPlan{{rows: 16, columns: 64, threads: 128}, {rows: 32, columns: 64, threads: 128}, {rows: 64, columns: 64, threads: 128},
		{rows: 128, columns: 128, threads: 256}} {
		p.tileOver(c)
		p.pixels = 64
		p.splits = ceil(c.N*c.OH()*c.OW(), p.pixels)
		all = append(all, s.convBackwardWeights(p, c, m, x, dy, dw, scratch))
	}
	return all
}

func (c ConvShape) SplitScratch() int {
	return ceil(c.N*c.OH()*c.OW(), 64) * c.K * c.Kernel * c.Kernel * Padded(c.C) * 4
}

// ChosenTiles are the tiles that are chosen for a convolution.
func (c ConvShape) ChosenTiles(m Math) (forward, backwardData, weights string) {
	p := c.weightsPlan()
	return chooseTile(m, c.forwardPixels(), Padded(c.K), 1).String(), chooseTile(m, c.phasePixels(), Padded(c.C), c.Stride*c.Stride).String(), p.String()
}
