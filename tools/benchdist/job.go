package main

import (
	"fmt"
	"strconv"
	"strings"
)

// What is measured, beside the numbers of bits and auto.
const (
	blocking  = "blocking"   // 32 bits, exchanged when the backward pass has ended
	cntk      = "cntk"       // 1 bit, as CNTK does it: every tensor by itself, in columns of 3 values, after the backward pass
	columns   = "1-columns"  // 1 bit, and of CNTK's way the columns of 3 values alone
	tensors   = "1-tensors"  // or the exchange of every tensor by itself
	late      = "1-late"     // or the exchange after the backward pass
	torch     = "torch"      // PyTorch's DistributedDataParallel
	torchFP16 = "torch-fp16" // with its hook that sends 16 bits
	profile   = "profile"    // what gotrain profile predicts
)

// local is the rate of links that there are none of: all workers are in one process.
const local = "local"

const (
	workers = 4
	batch   = 128
)

// job is one measurement.
type job struct {
	Round   int    `json:"round"`
	Depth   string `json:"depth"` // of the ResNet
	Rate    string `json:"rate"`  // of links, as tc writes it, none or local
	Setting string `json:"setting"`
}

func (j job) String() string {
	return fmt.Sprintf("round %d: ResNet-%s, %s, %s", j.Round, j.Depth, rateName(j.Rate), settingName(j.Setting))
}

// bits of a setting that is a number of bits, else 0.
func bits(setting string) int {
	n, _ := strconv.Atoi(setting)
	return n
}

// isPart is for what CNTK's way is made of.
func isPart(setting string) bool { return setting == columns || setting == tensors || setting == late }

func isTorch(setting string) bool { return setting == torch || setting == torchFP16 }

// possible says whether a job is worth a run: PyTorch is measured where it is, and on hosts alone. What the parts of CNTK's way
// cost is seen on one fast link and without any; on slow ones it is bytes alone. One process has nothing to predict.
func (j job) possible(o options) bool {
	switch {
	case isTorch(j.Setting):
		return o.python != "" && j.Rate != local
	case isPart(j.Setting):
		return j.Rate == local || bytesPerSecond(j.Rate) >= 1e8
	case j.Setting == profile || j.Setting == blocking:
		return j.Rate != local
	}
	return true
}

// arguments of gotrain.
func (j job) arguments(samples int) []string {
	set := []string{"network.depth=" + j.Depth, "distributed.workers=" + strconv.Itoa(workers), "learner.minibatchSize=" + strconv.Itoa(batch), "threads=1"}
	if j.Setting == profile {
		return append([]string{"profile", "resnet20_dense"}, set...)
	}
	switch j.Setting {
	case blocking:
		set = append(set, "distributed.bits=32", "distributed.overlap=false")
	case columns:
		set = append(set, "distributed.bits=1", "distributed.columns=3")
	case tensors:
		set = append(set, "distributed.bits=1", "distributed.bucketSize=4")
	case late:
		set = append(set, "distributed.bits=1", "distributed.overlap=false")
	case cntk:
		set = append(set, "distributed.bits=1", "distributed.columns=3", "distributed.bucketSize=4", "distributed.overlap=false", "distributed.zeroThreshold=true")
	default:
		set = append(set, "distributed.bits="+j.Setting)
	}
	return append(append([]string{"-config", "resnet20_dense", "-restart"}, set...),
		"command=[train]", "learner.maxEpochs=2", fmt.Sprint("learner.epochSize=", j.steps(samples)*batch),
		"learner.learningRatesPerMB=0.1", "learner.numMBsToShowResult=0", "checkpoint.everyEpochs=0")
}

// dense is about the seconds that a link takes for a minibatch's gradients at 32 bits; 0 where links have no limit.
func (j job) dense() float64 {
	rate := bytesPerSecond(j.Rate)
	if rate == 0 {
		return 0
	}
	depth, _ := strconv.Atoi(j.Depth)
	return float64(depth) * 90e3 / rate // ResNet-20 has 270,000 parameters, and each worker of 4 sends 6 bytes of each
}

// steps of an epoch: as many as its samples make, but fewer of a deep network, and few where sending its gradients takes long.
func (j job) steps(samples int) int {
	depth, _ := strconv.Atoi(j.Depth)
	share := 1.0
	switch j.Setting {
	case "auto":
		share = 1. / 16
	case torchFP16:
		share = 1. / 2
	default:
		if n := bits(j.Setting); n > 0 {
			share = float64(n) / 32
		}
	}
	steps := samples * 20 / max(depth, 20) / batch
	const seconds = 5
	if wire := share * j.dense(); wire > 0 {
		steps = min(steps, int(seconds/wire))
	}
	return max(steps, 2)
}

// bytesPerSecond reads a rate as tc writes it; 0: no limit.
func bytesPerSecond(rate string) float64 {
	for _, unit := range []struct {
		name string
		bits float64
	}{{"kbit", 1e3}, {"mbit", 1e6}, {"gbit", 1e9}, {"bit", 1}} {
		if number, ok := strings.CutSuffix(rate, unit.name); ok {
			n, _ := strconv.ParseFloat(number, 64)
			return n * unit.bits / 8
		}
	}
	return 0
}

// rateName is a rate for a reader.
func rateName(rate string) string {
	switch rate {
	case "none":
		return "unshaped"
	case local:
		return "one process"
	}
	for _, unit := range []string{"kbit", "mbit", "gbit"} {
		if number, ok := strings.CutSuffix(rate, unit); ok {
			return number + " " + strings.ToUpper(unit[:1]) + unit[1:] + "/s"
		}
	}
	return rate
}

// settingName is a setting for a reader.
func settingName(setting string) string {
	switch setting {
	case "1":
		return "1 bit"
	case "auto":
		return "bits: auto"
	case blocking:
		return "32 bits, no overlap"
	case cntk:
		return "CNTK's way"
	case columns:
		return "1 bit, columns of 3 values"
	case tensors:
		return "1 bit, tensor by tensor"
	case late:
		return "1 bit, no overlap"
	case torch:
		return "PyTorch"
	case torchFP16:
		return "PyTorch, fp16"
	case profile:
		return "gotrain profile"
	}
	return setting + " bits"
}
