package main

import (
	"context"
	"fmt"
	"os/exec"
	"regexp"
	"strconv"
)

// quantizerSpeed is what a benchmark of the quantizer found.
type quantizerSpeed struct {
	Instructions string  `json:"instructions"` // the vectorization
	Arena        string  `json:"arena"`        // cached or large
	Bits         string  `json:"bits"`
	What         string  `json:"what"`
	Speed        float64 `json:"gigabytesPerSecond"` // read and written
	Memcpy       float64 `json:"memcpy"`             // the same of a copy that touches as many bytes
}

var quantizerLine = regexp.MustCompile(`(?m)^BenchmarkQuantizer/([^/]+)/([^/]+)/bits=(\d+)/([a-z-]+?)(?:-\d+)?\s+\d+\s+([0-9.]+) GB/s\s+([0-9.]+) memcpyGB/s`)

// quantizers runs the benchmark of the package in a folder.
func quantizers(ctx context.Context, folder string) ([]quantizerSpeed, error) {
	out, err := exec.CommandContext(ctx, "go", "test", "-run", "^$", "-bench", "Quantizer", "-benchtime", "100ms", folder).CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("the quantizer's benchmark: %w\n%s", err, out)
	}
	return parseQuantizers(string(out)), nil
}

func parseQuantizers(out string) (all []quantizerSpeed) {
	for _, m := range quantizerLine.FindAllStringSubmatch(out, -1) {
		speed, err := strconv.ParseFloat(m[5], 64)
		memcpy, err2 := strconv.ParseFloat(m[6], 64)
		if err == nil && err2 == nil {
			all = append(all, quantizerSpeed{m[1], m[2], m[3], m[4], speed, memcpy})
		}
	}
	return all
}

// quantizer is a table of the vectorization that this machine uses, which the benchmark has first.
func (r *record) quantizer() string {
	if len(r.Quantizer) == 0 {
		return ""
	}
	whats := []struct{ what, name string }{
		{"encode", "quantize"}, {"encode-apart", "quantize, residual elsewhere"}, {"decode", "decode"}, {"add", "decode and add"},
	}
	head := []string{fmt.Sprintf("GB/s with %s (of memcpy)", r.Quantizer[0].Instructions)}
	for _, w := range whats {
		head = append(head, w.name)
	}
	var rows [][]string
	for _, arena := range []struct{ arena, name string }{{"cached", "in cache"}, {"large", "in memory"}} {
		for _, bits := range []string{"16", "8", "4", "2", "1"} {
			row := []string{settingName(bits) + ", " + arena.name}
			for _, w := range whats {
				cell := ""
				for _, q := range r.Quantizer {
					if q.Instructions == r.Quantizer[0].Instructions && q.Arena == arena.arena && q.Bits == bits && q.What == w.what && q.Memcpy > 0 {
						cell = fmt.Sprintf("%.0f (%.0f %%)", q.Speed, 100*q.Speed/q.Memcpy)
					}
				}
				row = append(row, cell)
			}
			rows = append(rows, row)
		}
	}
	return grid(head, rows)
}
