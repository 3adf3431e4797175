package learners

import (
	"math"

	"gotrain/configs"
)

// scheduled is the rate that the pieces, one after the other, give at a fraction of epochs since training began. Where
// one piece ends, the next one has begun; after the last, its final rate holds.
//
// The shapes are those of Goyal et al., "Accurate, large minibatch SGD" (2017), for the warm-up, of Loshchilov and
// Hutter, "SGDR" (2017), for the cosine, and of Smith, "A disciplined approach to neural network hyper-parameters"
// (2018), for one cycle, with the cosine that later tools use in place of its straight lines.
func scheduled(pieces []configs.Piece, epochs float64) float64 {
	for _, p := range pieces {
		if epochs < p.Epochs {
			return pieceRate(p, epochs/p.Epochs)
		}
		epochs -= p.Epochs
	}
	return pieceRate(pieces[len(pieces)-1], 1)
}

// pieceRate is the rate at a share of a piece, 0 where it begins and 1 where it ends.
func pieceRate(p configs.Piece, share float64) float64 {
	switch p.Kind {
	case "cosine":
		return halfCosine(p.From, p.To, share)
	case "oneCycle":
		if share < p.WarmUp {
			return halfCosine(p.From, p.Peak, share/p.WarmUp)
		}
		if share == 1 { // WarmUp may be 1
			return p.To
		}
		return halfCosine(p.Peak, p.To, (share-p.WarmUp)/(1-p.WarmUp))
	default: // constant, linear, warmUp
		return between(p.From, p.To, share)
	}
}

// halfCosine goes from one rate to another on half a period of a cosine.
func halfCosine(from, to, share float64) float64 {
	return between(from, to, (1-math.Cos(math.Pi*share))/2)
}

// between gives exactly its ends at 0 and 1.
func between(from, to, share float64) float64 { return from*(1-share) + to*share }
