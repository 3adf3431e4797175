// Package group lets the workers of a training exchange bytes. A group has one member for each worker; the workers may be
// goroutines of one process (Local), or be spread over processes of an MPI job (Join).
//
// There is one primitive, Exchange: every member tells what it sends to each of the others and what it wants from each. The
// collectives are functions made of it, so that a transport has little to get wrong, and that the sums of AllReduce run in
// the order of the workers whatever the transport: results are the same to the bit wherever the workers are.
//
// It is not a general message-passing library: lengths are known on both sides, and all members make the same calls. How
// gradients are cut into messages and what is in them is the business of package distributed.
package group

import "fmt"

// Member is one worker's place in a group. Its methods may be called from several goroutines at once where the tags differ.
type Member interface {
	Rank() int // of this worker, from 0
	Size() int // workers

	// Exchange sends send[i] to worker i and fills recv[i] with what worker i sends here under the same tag; both have Size
	// entries, and an entry that is nil or empty stands for no message, on both sides alike. recv[Rank()] is filled from
	// send[Rank()]. When it returns, all is received and the buffers of send may be used again.
	//
	// It fails with a *LostError when a worker has not answered within the group's time limit, and with the cause that
	// Abort was given. A failure is final: it aborts all members that this process can reach.
	Exchange(tag Tag, send, recv [][]byte) error

	// Abort makes the exchanges of all members that this process can reach fail with a cause, now and from now on.
	Abort(cause error)
}

// Tag tells the exchanges that are under way at one time apart, and says in messages what was waited for. Exchanges with one
// Phase and Bucket happen in the same order on all members.
type Tag struct {
	Phase  Phase
	Step   int64 // for messages: not compared
	Bucket int   // of the step's exchanges, from 0
}

// Phase is what an exchange is for.
type Phase uint8

// The phases; those of a step are the first two, which Bucket tells apart further.
const (
	Scatter   Phase = iota // parts of gradients to their owners
	Gather                 // aggregates from their owners
	Statistic              // sums within a step: synchronized batch norm
	Control                // everything between steps
	Outside                // an exchange of a step that goes another way, see Job.Outside
	phases
)

func (t Tag) String() string {
	switch t.Phase {
	case Scatter:
		return fmt.Sprintf("step %d, bucket %d, sending gradients", t.Step, t.Bucket)
	case Gather:
		return fmt.Sprintf("step %d, bucket %d, receiving aggregates", t.Step, t.Bucket)
	case Statistic:
		return fmt.Sprintf("step %d, statistics of batch norm", t.Step)
	case Outside:
		return fmt.Sprintf("step %d, exchanging between GPUs", t.Step)
	}
	return fmt.Sprintf("step %d, between steps", t.Step)
}
