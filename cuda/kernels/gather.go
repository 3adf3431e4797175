package kernels

import (
	"encoding/binary"

	"gotrain/cuda/driver"
	"gotrain/graph"
)

// SampleBytes is what a sample of a plan takes in device memory.
const SampleBytes = 12

// PutSamples lays a sample plan out for Gather: int32 index, int16 y and x, int32 flip.
func PutSamples(to []byte, plan []graph.Sample) {
	for i, s := range plan {
		b := to[i*SampleBytes:][:SampleBytes]
		flip := uint32(0)
		if s.Flip {
			flip = 1
		}
		binary.LittleEndian.PutUint32(b, uint32(s.Index))
		binary.LittleEndian.PutUint16(b[4:], uint16(s.Y))
		binary.LittleEndian.PutUint16(b[6:], uint16(s.X))
		binary.LittleEndian.PutUint32(b[8:], flip)
	}
}

// Resident is a graph.Resident in device memory.
type Resident struct {
	Pixels driver.Pointer // bytes [samples][C][H][W]
	Labels driver.Pointer // int32 [samples]
	Table  driver.Pointer // float32 [C][256]
	Fill   driver.Pointer // float32 [C]
}

// Gather makes images [N][C][H][W] and labels from a resident set by a plan that PutSamples has laid out. It reads a byte for each
// value, at random by samples and in rows within them, and writes each once.
func (s *Set) Gather(t graph.DType, images graph.Shape, set Resident, plan, to, labels driver.Pointer) driver.Launch {
	n, c, h, w := images[0], images[1], images[2], images[3]
	return s.launch("gather"+suffix(t), flat(n*h*w), threads, set.Pixels, set.Labels, set.Table, set.Fill, plan, to, labels, n, c, h, w)
}

// Interleave makes images of float32 values [N][C][H][W], as they are in a graph.Batch.
func (s *Set) Interleave(t graph.DType, images graph.Shape, planes, to driver.Pointer) driver.Launch {
	n, c, area := images[0], images[1], images[2]*images[3]
	return s.launch("interleave"+suffix(t), flat(n*area), threads, planes, to, n, c, area)
}
