package driver

/*
#include "api.h"
*/
import "C"

import (
	"fmt"
	"time"
	"unsafe"
)

type event struct {
	device *device
	handle C.CUevent
}

// NewEvent makes an event that keeps its time. Who waits for it sleeps, and leaves the core to the readers.
func (d *device) NewEvent() (Event, error) {
	e := &event{device: d}
	err := d.do(func() error {
		if err := d.check("cuEventCreate", C.call_cuEventCreate(d.api, &e.handle, C.CU_EVENT_BLOCKING_SYNC), d.String()); err != nil {
			return err
		}
		d.left[resource{kind: events, handle: unsafe.Pointer(e.handle)}] = true
		return nil
	})
	if err != nil {
		return nil, err
	}
	return e, nil
}

func (e *event) Synchronize() error {
	d := e.device
	return d.wait("cuEventSynchronize", func() C.CUresult { return C.gotrain_cuda_wait_event(d.api, d.context, e.handle) }, "an event of "+d.String())
}

// Since has a resolution of half a microsecond.
func (e *event) Since(earlier Event) (time.Duration, error) {
	from, ok := earlier.(*event)
	if !ok {
		return 0, fmt.Errorf("an event of %v: the earlier event is not one of this driver", e.device)
	}
	var ms C.float
	err := e.device.do(func() error {
		return e.device.check("cuEventElapsedTime", C.call_cuEventElapsedTime(e.device.api, &ms, from.handle, e.handle),
			"the time between two events of "+e.device.String())
	})
	return time.Duration(float64(ms) * float64(time.Millisecond)), err
}

func (e *event) Free() error {
	return e.device.do(func() error {
		r := resource{kind: events, handle: unsafe.Pointer(e.handle)}
		if !e.device.left[r] {
			return fmt.Errorf("an event of %v was freed before", e.device)
		}
		return e.device.free(r)
	})
}
