package kernels

import "gotrain/cuda/driver"

// Replace puts a function in the place of the one of its name.
func (s *Set) Replace(f driver.Function) { s.functions[f.Name()] = f }
