package quantizer

import "fmt"

// check panics where columns do not fit the wire or the smallest arena, of size values, as an index out of range would: C code does not look.
func (f Format) check(columns []Column, wire []byte, size int) {
	n := 0
	for i, c := range columns {
		if c.Offset < 0 || c.Rows < 0 || int(c.Offset)+int(c.Rows) > size {
			panic(fmt.Sprintf("quantizer: column %d, values [%d, %d), is not within the arenas' %d values", i, c.Offset,
				int(c.Offset)+int(c.Rows), size))
		}
		n += f.piece(c)
	}
	if n != len(wire) {
		panic(fmt.Sprintf("quantizer: %d bytes are given for %d columns that take %d bytes at %d bits", len(wire),
			len(columns), n, f.Bits))
	}
}
