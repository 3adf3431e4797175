package cuda

import (
	"encoding/binary"
	"fmt"
	"math"

	"gotrain/cuda/driver"
	"gotrain/cuda/kernels"
	"gotrain/graph"
)

// resident is a set in a device's memory.
type resident struct {
	kernels.Resident
	samples int
}

// hold copies a set to the device.
func (d *device) hold(r *graph.Resident) (*resident, error) {
	labels := make([]byte, 0, 4*len(r.Labels))
	for _, l := range r.Labels {
		labels = binary.LittleEndian.AppendUint32(labels, uint32(l))
	}
	var table, fill []byte
	for c, t := range r.Table {
		for _, v := range t {
			table = binary.LittleEndian.AppendUint32(table, math.Float32bits(v))
		}
		fill = binary.LittleEndian.AppendUint32(fill, math.Float32bits(r.Fill[c]))
	}
	s := &resident{samples: len(r.Labels)}
	for _, part := range []struct {
		to     *driver.Pointer
		values []byte
		what   string
	}{{&s.Pixels, r.Pixels, "pixels"}, {&s.Labels, labels, "labels"}, {&s.Table, table, "values"}, {&s.Fill, fill, "border"}} {
		var err error
		if *part.to, err = d.upload(part.values, "the training set's "+part.what); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// upload allocates memory and fills it.
func (d *device) upload(values []byte, what string) (driver.Pointer, error) {
	at, err := d.Allocate(max(len(values), 4), what)
	if err != nil {
		return 0, fmt.Errorf("no memory for %s (%.1f MiB): %w", what, float64(len(values))/(1<<20), err)
	}
	const most = 16 << 20 // of pinned memory at a time
	h, err := d.AllocateHost(min(max(len(values), 4), most), what)
	if err != nil {
		return 0, fmt.Errorf("no pinned memory for %s: %w", what, err)
	}
	s, err := d.NewStream("uploads")
	for done := 0; err == nil && done < len(values); {
		n := copy(h.Bytes, values[done:])
		if err = s.Copy(at+driver.Pointer(done), h.Pointer, n); err == nil {
			err = s.Synchronize()
		}
		done += n
	}
	if e := d.FreeHost(h); err == nil {
		err = e
	}
	if err != nil {
		return 0, fmt.Errorf("copying %s: %w", what, err)
	}
	return at, nil
}
