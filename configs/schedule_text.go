package configs

import (
	"fmt"
	"strconv"
	"strings"
)

// ParsePerEpoch reads a schedule v*n:w. A value without a count holds for one
// epoch, the last one for ever. Errors say which part is wrong.
func ParsePerEpoch(text string) (PerEpoch, error) {
	var p PerEpoch
	for _, part := range strings.Split(text, ":") {
		value, count, counted := strings.Cut(part, "*")
		s := Span{Epochs: 1}
		if resolve(value) != tagInt && resolve(value) != tagFloat {
			return nil, fmt.Errorf("%q is not a number", clip(value))
		}
		var ok bool
		if s.Value, ok = parseFloat(value); !ok {
			return nil, fmt.Errorf("%q is not a finite number", clip(value))
		}
		if counted {
			n, err := strconv.Atoi(count)
			if err != nil || n < 1 || n > 1<<31-1 {
				return nil, fmt.Errorf("%q is not a number of epochs", clip(count))
			}
			s.Epochs = n
		}
		p = append(p, s)
	}
	return p, nil
}

// String returns the schedule in CNTK's form, from which ParsePerEpoch makes
// the same schedule.
func (p PerEpoch) String() string {
	parts := make([]string, len(p))
	for i, s := range p {
		parts[i] = formatFloat(s.Value)
		if s.Epochs != 1 {
			parts[i] += "*" + strconv.Itoa(s.Epochs)
		}
	}
	return strings.Join(parts, ":")
}

// String returns the bits as they are written in a configuration.
func (b Bits) String() string {
	if b.Auto {
		return "auto"
	}
	return b.Schedule.String()
}

// parseBits reads auto, or a schedule of the numbers of bits that there are.
func parseBits(text string) (Bits, error) {
	if text == "auto" {
		return Bits{Auto: true}, nil
	}
	p, err := ParsePerEpoch(text)
	if err != nil {
		return Bits{}, err
	}
	for _, s := range p {
		switch s.Value {
		case 32, 16, 8, 4, 2, 1:
		default:
			return Bits{}, fmt.Errorf("%s is not a number of bits", formatFloat(s.Value))
		}
	}
	return Bits{Schedule: p}, nil
}
