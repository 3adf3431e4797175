// Command bench measures how fast gotrain trains ResNet-20 on this machine, beside PyTorch, and prints both with their
// ratio: make bench runs it.
//
// The two take turns, so that a machine that slows down slows both. gotrain trains whole epochs through its reader,
// augmentation included; PyTorch makes bare steps on one minibatch, in both of its memory layouts, of which the faster
// counts. A figure is the median over all epochs of gotrain, and over all steps of PyTorch; memory is the greatest that a
// process held in RAM.
package main

import (
	"bytes"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"gotrain/internal/synthetic"
	"gotrain/tools/internal/bench"
)

//go:embed torch_step.py
var torchStep string

const (
	batch      = 128
	torchSteps = 60 // some seconds, as an epoch of gotrain takes: a machine's pauses then meet both alike
)

var (
	precisions = []string{"float32", "bfloat16"}
	layouts    = []string{"contiguous", "channelsLast"}
)

// options are the command line.
type options struct {
	gotrain, python         string
	rounds, epochs, samples int
}

func main() {
	var o options
	flag.StringVar(&o.gotrain, "gotrain", "bin/gotrain", "the program to measure")
	flag.StringVar(&o.python, "python", "", "a Python that has PyTorch; empty: measure gotrain alone")
	flag.IntVar(&o.rounds, "rounds", 3, "alternations between gotrain and PyTorch")
	flag.IntVar(&o.epochs, "epochs", 2, "epochs of each round of gotrain")
	flag.IntVar(&o.samples, "samples", 0, "samples of an epoch; 0: the whole training set")
	flag.Parse()
	if err := run(o, os.Getenv("GOTRAIN_CIFAR10"), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// measured is what was measured of one program at one precision.
type measured struct {
	rates  []float64 // samples per second
	memory int64     // bytes
}

// add takes over another round's figures.
func (m *measured) add(rates []float64, memory int64) {
	m.rates = append(m.rates, rates...)
	m.memory = max(m.memory, memory)
}

func run(o options, cifar10 string, w io.Writer) error {
	dir, err := os.MkdirTemp("", "gotrain-bench")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if cifar10 == "" {
		cifar10 = filepath.Join(dir, "cifar-10-batches-bin")
		fmt.Fprintln(w, "GOTRAIN_CIFAR10 is not set: made-up pictures instead of CIFAR-10's; that changes no speed")
		if err := synthetic.CIFAR10(cifar10, 10000); err != nil {
			return err
		}
	}
	figures := map[string]*measured{}
	at := func(name string) *measured {
		if figures[name] == nil {
			figures[name] = &measured{}
		}
		return figures[name]
	}
	var later []float64 // the first epoch's rate over the second's
	for round := range o.rounds {
		for _, precision := range precisions {
			rates, memory, err := gotrain(o, cifar10, dir, precision)
			if err != nil {
				return err
			}
			at("gotrain "+precision).add(rates, memory)
			if len(rates) > 1 {
				later = append(later, rates[1]/rates[0])
			}
			fmt.Fprintf(w, "round %d: gotrain %s: %s samples/s\n", round+1, precision, list(rates))
			if o.python == "" {
				continue
			}
			for _, layout := range layouts {
				rates, memory, err := pytorch(o, precision, layout)
				if err != nil {
					return err
				}
				at("PyTorch "+precision+" "+layout).add(rates, memory)
				fmt.Fprintf(w, "round %d: PyTorch %s %s: %.0f samples/s\n", round+1, precision, layout, bench.Median(rates))
			}
		}
	}
	report(w, figures, later)
	return nil
}

// gotrain trains some epochs.
func gotrain(o options, cifar10, dir, precision string) (rates []float64, memory int64, err error) {
	out, memory, err := measure(exec.Command(o.gotrain, "-config", "resnet20_10epochs", "-restart", "command=[train]",
		"reader.path="+cifar10, "outputDir="+dir, "precision="+precision, "learner.minibatchSize="+strconv.Itoa(batch),
		"learner.numMBsToShowResult=0", fmt.Sprint("learner.maxEpochs=", o.epochs), fmt.Sprint("learner.epochSize=", o.samples)))
	if err != nil {
		return nil, 0, err
	}
	rates, err = bench.EpochRates(out, o.epochs)
	return rates, memory, err
}

// pytorch makes some steps.
func pytorch(o options, precision, layout string) (rates []float64, memory int64, err error) {
	c := exec.Command(o.python, "-", precision, layout, strconv.Itoa(batch), strconv.Itoa(runtime.NumCPU()), strconv.Itoa(torchSteps))
	c.Stdin = strings.NewReader(bench.TorchResNet + torchStep)
	out, memory, err := measure(c)
	if err != nil {
		return nil, 0, err
	}
	for _, word := range strings.Fields(out) {
		rate, err := strconv.ParseFloat(word, 64)
		if err != nil {
			return nil, 0, fmt.Errorf("PyTorch said %q", out)
		}
		rates = append(rates, rate)
	}
	if len(rates) == 0 {
		return nil, 0, errors.New("PyTorch made no step")
	}
	return rates, memory, nil
}

// measure runs a command and returns its output and the most memory that it held.
func measure(c *exec.Cmd) (out string, memory int64, err error) {
	var stdout, stderr bytes.Buffer
	c.Stdout, c.Stderr = &stdout, &stderr
	if err := c.Run(); err != nil {
		return "", 0, fmt.Errorf("%s: %w\n%s", c, err, stderr.String())
	}
	if usage, ok := c.ProcessState.SysUsage().(*syscall.Rusage); ok {
		memory = usage.Maxrss * 1024 // Linux counts in KiB
	}
	return stdout.String(), memory, nil
}

// report prints the medians and ratios.
func report(w io.Writer, figures map[string]*measured, later []float64) {
	fmt.Fprintf(w, "\nResNet-20, 3x32x32, minibatches of %d, %d cores: medians\n", batch, runtime.NumCPU())
	for _, precision := range precisions {
		own := figures["gotrain "+precision]
		fmt.Fprintf(w, "%s\n", line("gotrain "+precision, own))
		var fastest, leanest *measured
		for _, layout := range layouts {
			name := "PyTorch " + precision + " " + layout
			other := figures[name]
			if other == nil {
				continue
			}
			fmt.Fprintf(w, "%s\n", line(name, other))
			if fastest == nil || bench.Median(other.rates) > bench.Median(fastest.rates) {
				fastest = other
			}
			if leanest == nil || other.memory < leanest.memory {
				leanest = other
			}
		}
		if fastest != nil {
			fmt.Fprintf(w, "  gotrain is %.2f times as fast as PyTorch's faster, and takes %.2f of the memory of its leaner\n",
				bench.Median(own.rates)/bench.Median(fastest.rates), float64(own.memory)/float64(leanest.memory))
		}
	}
	if len(later) > 0 {
		fmt.Fprintf(w, "first epoch: %.2f times as long as the second\n", bench.Median(later))
	}
}

func line(name string, m *measured) string {
	return fmt.Sprintf("%-30s %7.0f samples/s  %5d MiB", name, bench.Median(m.rates), m.memory>>20)
}

func list(values []float64) string {
	words := make([]string, len(values))
	for i, v := range values {
		words[i] = fmt.Sprintf("%.0f", v)
	}
	return strings.Join(words, ", ")
}
