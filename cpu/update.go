package cpu

import "math"

// bias is Adam's correction 1 - beta^step.
func bias(beta float32, step int64) float64 { return 1 - math.Pow(float64(beta), float64(step)) }
