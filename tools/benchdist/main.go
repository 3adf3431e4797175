// Command benchdist measures how fast gotrain trains with several workers, on virtual hosts with slow links and in one process,
// beside PyTorch's DistributedDataParallel in the same network: make bench-distributed runs it, and says how to cut it short.
//
// All settings take turns, round by round, so that a machine that slows down slows all. A figure of gotrain is the rate of a
// run's second epoch; one of PyTorch the median of its steps. A ratio is taken within each round, and what is printed is the
// median over the rounds.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"
)

// options are the command line.
type options struct {
	gotrain, python, network string
	quantizer                string
	load, out, from, docs    string
	rates, settings          []string
	depths                   []string
	rounds, samples          int
	limit                    time.Duration
	whole                    bool // nothing is left out
}

func main() {
	var o options
	var rates, settings, depths string
	flag.StringVar(&o.gotrain, "gotrain", "bin/gotrain", "the program to measure")
	flag.StringVar(&o.python, "python", "", "a Python that has PyTorch; empty: measure gotrain alone")
	flag.StringVar(&o.network, "network", "", "a program that runs one process on each of several hosts, called with -n HOSTS -r RATE [-x VAR]... --; empty: make hosts here")
	flag.StringVar(&o.quantizer, "quantizer", "./distributed/quantizer", "the package whose benchmark to run first, where everything is measured")
	flag.StringVar(&o.load, "load", "", "the machine's load before, for the record")
	flag.StringVar(&o.out, "out", "", "the file of results to write")
	flag.StringVar(&o.from, "from", "", "a file of results to read: measure nothing")
	flag.StringVar(&o.docs, "docs", "docs", "the folder whose pages' tables and pictures are written where everything is measured")
	flag.StringVar(&rates, "rates", "", "rates of links, as tc writes them; none: no limit; local: one process")
	flag.StringVar(&settings, "settings", "", "what to measure")
	flag.StringVar(&depths, "depths", "", "of networks")
	flag.IntVar(&o.rounds, "rounds", 3, "rounds at most")
	flag.IntVar(&o.samples, "samples", 1920, "samples of an epoch")
	flag.DurationVar(&o.limit, "limit", 11*time.Minute, "no measurement begins later")
	flag.Parse()
	o.rates = or(rates, "none", "1gbit", "100mbit", "10mbit", local)
	o.settings = or(settings, "32", "1", "auto", blocking, cntk, torch, torchFP16, columns, tensors, late)
	o.depths = or(depths, "20", "110")
	o.whole = rates == "" && settings == "" && depths == ""
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, o, os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "benchdist:", err)
		os.Exit(1)
	}
}

// or is a list of words, or what it is if there are none.
func or(words string, otherwise ...string) []string {
	if list := strings.Fields(words); len(list) > 0 {
		return list
	}
	return otherwise
}

func run(ctx context.Context, o options, w io.Writer) error {
	var r record
	if o.from != "" {
		if err := r.read(o.from); err != nil {
			return err
		}
	} else {
		r = newRecord(o.load)
		err := measure(ctx, o, &r, w)
		if o.out != "" && len(r.Results) > 0 {
			err = errors.Join(err, r.write(o.out))
		}
		if err != nil {
			return err
		}
	}
	for _, t := range r.tables() {
		fmt.Fprintf(w, "\n%s\n", t.text)
	}
	if !o.whole || o.docs == "" || len(r.Results) == 0 {
		return nil
	}
	return r.document(o.docs)
}

// measure goes through the plan. A measurement that fails is reported, and the others go on.
func measure(ctx context.Context, o options, r *record, w io.Writer) error {
	l, err := newLauncher(o)
	if err != nil {
		return err
	}
	defer l.close()
	begin := time.Now()
	if o.whole && o.quantizer != "" {
		if r.Quantizer, err = quantizers(ctx, o.quantizer); err != nil {
			return err
		}
	}
	plan := plan(o)
	failed := 0
	for i, j := range plan {
		if time.Since(begin) > o.limit {
			fmt.Fprintf(w, "%v are over: %d of %d measurements are left out (LIMIT)\n", o.limit, len(plan)-i, len(plan))
			break
		}
		start := time.Now()
		result, err := l.measure(ctx, j)
		if ctx.Err() != nil {
			return errors.New("interrupted")
		}
		if err != nil {
			failed++
			fmt.Fprintf(w, "%v: %v\n", j, err)
			continue
		}
		r.Results = append(r.Results, result)
		fmt.Fprintf(w, "%4.0fs  %v: %v (took %.1fs)\n", time.Since(begin).Seconds(), j, result, time.Since(start).Seconds())
	}
	if failed > 0 && failed == len(plan) {
		return errors.New("nothing could be measured")
	}
	if failed > 0 {
		fmt.Fprintf(w, "%d measurements failed: see above\n", failed)
	}
	return nil
}

// plan is what to measure, in order: everything that matters once, then again what is to be precise, and what takes minutes behind
// that.
func plan(o options) (all []job) {
	add := func(round int, depth string, wanted func(job) bool) {
		settings := slices.Clone(o.settings)
		if depth == o.depths[0] {
			settings = append(settings, profile)
		}
		if round%2 == 0 {
			slices.Reverse(settings) // what comes first has no advantage in the long run
		}
		for _, rate := range o.rates {
			for _, s := range settings {
				j := job{Round: round, Depth: depth, Rate: rate, Setting: s}
				if wanted(j) && j.possible(o) {
					all = append(all, j)
				}
			}
		}
	}
	first := o.depths[0]
	precise := func(j job) bool { return j.Setting == "auto" || bits(j.Setting) > 0 }
	part := func(j job) bool { return isPart(j.Setting) }
	others := func(round int, slow bool) {
		for _, depth := range o.depths[1:] {
			add(round, depth, func(j job) bool { return bits(j.Setting) > 0 && j.dense() > 2 == slow })
		}
	}
	add(1, first, func(j job) bool { return !part(j) })
	others(1, false)
	if o.rounds > 1 {
		add(2, first, precise)
	}
	add(1, first, part)
	others(1, true)
	for round := 3; round <= o.rounds; round++ {
		add(round, first, precise)
	}
	for round := 2; round <= o.rounds; round++ {
		add(round, first, func(j job) bool { return !precise(j) && !part(j) })
		others(round, false)
		others(round, true)
	}
	return all
}
