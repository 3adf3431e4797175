package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"

	"gotrain/configs"
	"gotrain/graph"
	"gotrain/graph/draw"
	"gotrain/pipeline"
)

// drawings are the forms of a drawing by the file's extension.
var drawings = map[string]func(io.Writer, *graph.Plan, draw.Options) error{
	".txt": draw.Text,
	".svg": draw.SVG,
	".dot": draw.DOT,
}

func graphCommand() *command {
	c := &command{
		name: "graph", alone: true, args: "FILE [-o F.svg|dot|txt] [-inference | -streams] [key=value ...]", short: "draws the compiled plan", flags: newFlags(),
		long: "The plan is one step for one minibatch: forward pass, backward pass, update; shapes, bytes, fused operations, and\n" +
			"the memory plan. Without -o it is a table on standard output. The data has to be there: its shape makes the plan's.\n" +
			"With -streams it is the step as GPUs run it: kernels and copies by device, worker and stream, and what waits for what.",

		examples: []example{
			{"gotrain graph quickstart -o plan.svg", "draws the step of the quickstart's network; any browser shows it"},
			{"gotrain graph quickstart distributed.workers=2 -streams", "lists what two GPUs do in a step"},
			{"gotrain graph quickstart network.depth=20 -inference", "lists the operations of an evaluation with ResNet-20"},
		},
	}
	to := c.flags.String("o", "", "write to `F`, in the form of its extension: .svg, .dot (Graphviz) or .txt")
	inference := c.flags.Bool("inference", false, "draw the plan of an evaluation instead of a training step")
	work := c.flags.Bool("streams", false, "draw what the streams of GPUs do in a training step; no GPU is needed")
	c.run = func(s streams, args []string) error {
		file, overrides, err := c.fileAndOverrides(args)
		if err != nil {
			return err
		}
		form := ".txt"
		if *to != "" {
			form = strings.ToLower(filepath.Ext(*to))
		}
		if drawings[form] == nil {
			return usage("-o %s: unknown form: end the name in .svg, .dot or .txt", *to)
		}
		if *work && *inference {
			return usage("-streams draws a training step: leave -inference out")
		}
		cfg, err := configs.Load(file, overrides)
		if err != nil {
			return err
		}
		var b bytes.Buffer
		if *work {
			err = drawStreams(&b, cfg, form)
		} else {
			err = drawPlan(&b, cfg, *inference, form)
		}
		if err != nil {
			return err
		}
		if *to != "" {
			err := os.WriteFile(*to, b.Bytes(), 0o666)
			if info, e := os.Lstat(*to); err != nil && e == nil && info.Mode().IsRegular() {
				os.Remove(*to) // half a drawing would be taken for one
			}
			return err
		}
		_, err = s.out.Write(b.Bytes())
		return err
	}
	return c
}

func drawPlan(w io.Writer, cfg *configs.Config, inference bool, form string) error {
	plan, err := pipeline.Plan(cfg, inference)
	if err != nil {
		return err
	}
	return drawings[form](w, plan, draw.Options{})
}

func drawStreams(w io.Writer, cfg *configs.Config, form string) error {
	nodes, err := pipeline.Streams(cfg)
	if err != nil {
		return err
	}
	var all []draw.Work
	for _, n := range nodes {
		all = append(all, draw.Work(n))
	}
	switch form {
	case ".svg":
		return draw.StreamsSVG(w, all, "training step on GPUs: "+cfg.Name)
	case ".dot":
		return draw.StreamsDOT(w, all)
	}
	return draw.StreamsText(w, all)
}
