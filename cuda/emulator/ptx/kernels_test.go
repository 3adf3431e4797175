package ptx

import (
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"sync"
	"testing"
)

// memory is a Memory for tests: allocations at multiples of 1<<32.
type memory struct {
	mutex  sync.Mutex
	space  [][]byte
	fences int
}

func (m *memory) allocate(bytes int) uint64 {
	m.space = append(m.space, make([]byte, (bytes+7)/8*8)[:bytes])
	return uint64(len(m.space)) << 32
}

func (m *memory) Access(a *Access) error {
	first := -1
	for l := range 32 {
		if a.Mask>>l&1 == 0 {
			continue
		}
		p := a.Address[l]
		if first < 0 {
			first = l
		}
		id := p >> 32
		if id != a.Address[first]>>32 {
			continue
		}
		if id == 0 || id > uint64(len(m.space)) || p&0xffffffff+uint64(a.Size) > uint64(len(m.space[id-1])) {
			return &AccessError{l, fmt.Sprintf("%d bytes at %#x are outside of every allocation", a.Size, p)}
		}
		a.Served |= 1 << l
		a.Base, a.Data = id<<32, m.space[id-1]
	}
	return nil
}

func (m *memory) Fence(int) {
	m.mutex.Lock()
	m.fences++
	m.mutex.Unlock()
}

// floats and words give an allocation with values in it.
func (m *memory) floats(v []float32) uint64 {
	p := m.allocate(4 * len(v))
	for i, f := range v {
		binary.LittleEndian.PutUint32(m.space[p>>32-1][4*i:], math.Float32bits(f))
	}
	return p
}

func (m *memory) words(v []uint32) uint64 {
	p := m.allocate(4 * len(v))
	for i, f := range v {
		binary.LittleEndian.PutUint32(m.space[p>>32-1][4*i:], f)
	}
	return p
}

func (m *memory) getWords(p uint64) []uint32 {
	b := m.space[p>>32-1]
	v := make([]uint32, len(b)/4)
	for i := range v {
		v[i] = binary.LittleEndian.Uint32(b[4*i:])
	}
	return v
}

func (m *memory) getFloats(p uint64) []float32 {
	var v []float32
	for _, w := range m.getWords(p) {
		v = append(v, math.Float32frombits(w))
	}
	return v
}

// pack lays out parameters.
func pack(values ...any) (b []byte) {
	for _, v := range values {
		switch v := v.(type) {
		case uint64:
			for len(b)%8 != 0 {
				b = append(b, 0)
			}
			b = binary.LittleEndian.AppendUint64(b, v)
		case int:
			b = binary.LittleEndian.AppendUint32(b, uint32(v))
		case float32:
			b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
		}
	}
	return b
}

func load(t testing.TB, file string) *Module {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	m, err := Parse(file, text)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func kernel(t testing.TB, m *Module, name string) *Kernel {
	t.Helper()
	k, err := m.Kernel(name)
	if err != nil {
		t.Fatal(err)
	}
	return k
}
