package cuda

import (
	"fmt"
	"math"

	"gotrain/cuda/driver"
	"gotrain/cuda/kernels"
	"gotrain/graph"
)

// What a worker's steps leave in memory of its own: the result of its share and, where the fleet aggregates, that of all workers.
const (
	shareResult = 0
	fleetResult = 64
	resultBytes = 128
)

// ticketBytes is the memory for words that are zero between launches. The compute and the exchange stream have half of it each.
const ticketBytes = 8192

// small allocates memory of the worker for results and tickets, all of it zero.
func (e *Executor) small() error {
	e.results.what, e.tickets.what, e.found.what = e.named("results"), e.named("tickets"), e.named("results")
	for b, n := range map[*block]int{&e.results: resultBytes, &e.tickets: ticketBytes} {
		if _, err := e.device.reserve(b, n); err != nil {
			return err
		}
		if err := e.compute.Fill(b.at, 0, n/4); err != nil {
			return fmt.Errorf("clearing %s: %w", b.what, err)
		}
	}
	_, err := e.device.reserveHost(&e.found, resultBytes)
	return err
}

// exchangeTickets are the words of the exchange stream.
func (e *Executor) exchangeTickets() driver.Pointer { return e.tickets.at + ticketBytes/2 }

// loss lowers the loss, which leaves the metrics of the worker's share.
func (l *lowering) loss(o *graph.Op) ([]driver.Launch, error) {
	n, classes := o.In[0].Shape[0], o.In[0].Shape[1]
	var dlogits driver.Pointer
	if len(o.Out) > 2 {
		dlogits = l.address(o.Out[2])
	}
	return []driver.Launch{l.e.device.set.CrossEntropy(n, classes, l.address(o.In[0]), l.address(o.In[1]), l.address(o.In[2]), l.address(o.In[3]),
		dlogits, l.need(kernels.CrossEntropyScratch(n)), l.e.tickets.at, l.e.results.at+shareResult)}, nil
}

// norm records the squared norm of the gradient arena, into one of the results.
func (e *Executor) norm(r *recorder, result driver.Pointer) {
	n := e.size(graph.Gradients)
	r.launch(e.compute, "norm", e.device.set.SumSquares(n, e.arenas[graph.Gradients], e.squares.at, e.tickets.at, e.results.at+result))
}

// update records the learner's rule, which does nothing where the loss or the norm in a result is not finite.
func (e *Executor) update(r *recorder, result driver.Pointer) {
	a := e.arenas
	r.launch(e.compute, "update", e.device.set.Update(e.size(graph.Parameters), e.inputs.at, e.results.at+result,
		a[graph.Parameters], a[graph.Gradients], a[graph.FirstMoment], a[graph.SecondMoment]))
}

// download records the copy of the results to the host.
func (e *Executor) download(r *recorder, l *lane) {
	r.copy(l, "results", e.found.Pointer, e.results.at, resultBytes)
}

// result reads one that was downloaded.
func (e *Executor) result(at int) graph.Result {
	found := kernels.GetResult(e.found.Bytes[at:])
	return graph.Result{Metrics: found.Metrics, Norm: math.Sqrt(found.Squares)}
}
