// Package bench has what the programs that measure gotrain beside PyTorch share.
package bench

import (
	_ "embed"
	"fmt"
	"regexp"
	"slices"
	"strconv"
)

// TorchResNet is Python: resnet(depth) makes a ResNet of the CIFAR form in PyTorch. Scripts go behind it.
//
//go:embed torch_resnet.py
var TorchResNet string

var epochLine = regexp.MustCompile(`(?m)^Finished Epoch .*\(([0-9.]+) samples per second\)$`)

// EpochRates are the samples per second of each epoch in what gotrain has written; it is an error if they are not so many.
func EpochRates(out string, epochs int) (rates []float64, err error) {
	for _, m := range epochLine.FindAllStringSubmatch(out, -1) {
		rate, err := strconv.ParseFloat(m[1], 64)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", m[0], err)
		}
		rates = append(rates, rate)
	}
	if len(rates) != epochs {
		return nil, fmt.Errorf("gotrain finished %d of %d epochs and said:\n%s", len(rates), epochs, out)
	}
	return rates, nil
}

// Median is the middle value, or the mean of the two in the middle.
func Median(values []float64) float64 {
	v := slices.Sorted(slices.Values(values))
	return (v[(len(v)-1)/2] + v[len(v)/2]) / 2
}
