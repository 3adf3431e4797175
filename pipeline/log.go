package pipeline

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"gotrain/graph"
)

// The lines of a log, in CNTK's form: there are scripts that read them.

// errSkipped refuses to give means over no samples at all.
var errSkipped = errors.New("every sample was skipped: see the messages before, and mend the data or its path")

// number writes a value with up to so many significant digits.
func number(v float64, digits int) string { return strconv.FormatFloat(v, 'g', digits, 64) }

// perSample writes the means of sums over samples: "loss = 1.675002 * 50000, metric = 62.5% * 50000".
func perSample(m graph.Metrics) string {
	count := max(m.Count, 1)
	return fmt.Sprintf("loss = %s * %.0f, metric = %s%% * %.0f", number(m.Loss/count, 7), m.Count, number(100*m.Errors/count, 4), m.Count)
}

func speed(samples float64, d time.Duration) string {
	return fmt.Sprintf("%.3fs (%.1f samples per second)", d.Seconds(), samples/max(d.Seconds(), 1e-9))
}

// epochLine ends an epoch; epoch counts from 1.
func epochLine(epoch int, m graph.Metrics, d time.Duration) string {
	return fmt.Sprintf("Finished Epoch [%d]: [Training] %s %s", epoch, perSample(m), speed(m.Count, d))
}

// minibatchLine sums up the minibatches from and to, of which there are `all` in the epoch. The time is that of so many samples:
// a run that was continued has trained the others before.
func minibatchLine(epoch, epochs, from, to, all int, m graph.Metrics, samples float64, d time.Duration) string {
	return fmt.Sprintf(" Epoch[%*d of %d]-Minibatch[%4d-%4d, %.2f%%]: %s %s", len(strconv.Itoa(epochs)), epoch, epochs, from, to,
		100*float64(to)/float64(all), perSample(m), speed(samples, d))
}

// evaluationLine ends an evaluation over so many minibatches.
func evaluationLine(n, minibatches int, m graph.Metrics) string {
	return fmt.Sprintf("Finished Evaluation [%d]: Minibatch[1-%d]: %s", n, minibatches, perSample(m))
}
