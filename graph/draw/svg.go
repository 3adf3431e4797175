package draw

import (
	"fmt"
	"io"

	"gotrain/graph"
)

// Measures of the drawing, in pixels.
const (
	boxHeight = 30
	rowGap    = 11 // between rows of a block
	blockPad  = 5  // between a block's frame and its rows
	groupPad  = 10 // between a group's frame and its rows
	bandGap   = 9  // between frames
	top       = 150
	margin    = 16
)

// column is the place of a track across the drawing.
type column struct{ x, w float64 }

var columns = [tracks]column{
	forwardMain:  {72, 224},
	forwardSide:  {336, 148},
	backwardMain: {514, 248},
	backwardSide: {796, 220},
}

// laneOffset is how far to the right of a main track its identity shortcuts run.
const laneOffset = 22

const (
	bucketX     = 1052.0
	bucketW     = 56.0
	inferWidth  = 640.0
	framesRight = 1034.0
	inferRight  = 500.0
)

// SVG writes a plan as a picture: the forward pass as a column from top to bottom, with its shortcuts beside it; the
// backward pass in the same rows, from bottom to top; and the buckets of gradients beside the rows whose gradients they
// hold. Stages and blocks are framed; four or more equal blocks in succession are drawn once. The pointer shows the full
// account of an operation.
func SVG(w io.Writer, p *graph.Plan, o Options) error {
	s := &picture{plan: p, options: o, layout: arrange(p, o)}
	used := 2 // lanes at least, for the sake of the update's box
	for _, b := range s.layout.buckets {
		used = max(used, b.lane+1)
	}
	s.bus = bucketX + bucketW*float64(used) + 2
	s.width, s.right = s.bus+margin, framesRight
	if p.Inference {
		s.width, s.right = inferWidth, inferRight
	}
	s.setRows()
	s.open()
	s.header()
	s.frames()
	s.images()
	for _, e := range s.layout.edges {
		s.edge(e)
	}
	for _, b := range s.layout.boxes {
		s.box(b)
	}
	if !p.Inference {
		s.update()
	}
	s.printf("</svg>\n")
	_, err := w.Write(s.out.Bytes())
	return err
}

// setRows finds the top of each row: frames that begin or end between two rows push them apart.
func (s *picture) setRows() {
	opens, closes := make([]float64, s.layout.rows+1), make([]float64, s.layout.rows+1)
	for _, b := range s.layout.blocks {
		opens[b.from], closes[b.to+1] = blockPad, blockPad
	}
	for _, b := range s.layout.groups {
		opens[b.from], closes[b.to+1] = groupPad, groupPad
	}
	y := float64(top + boxHeight)
	for r := range s.layout.rows {
		switch {
		case r == 0:
			y += bandGap + opens[r]
		case opens[r] > 0 || closes[r] > 0:
			y += closes[r] + bandGap + opens[r]
		default:
			y += rowGap
		}
		s.y = append(s.y, y)
		y += boxHeight
	}
	s.height = y + groupPad + margin
}

// rect is the place of an operation's box.
func (s *picture) rect(b *box) rect {
	const gap = 8
	c := columns[b.track]
	w := (c.w - gap*float64(b.slots-1)) / float64(b.slots)
	return rect{c.x + float64(b.slot)*(w+gap), s.y[b.row], w, boxHeight}
}

func (s *picture) box(b *box) {
	r, o := s.rect(b), b.op
	s.printf(`<g><title>%s</title>`, escape(s.account(o)))
	s.fill(r, paintOf(o.Kind), 5)
	right, rightWidth := "", 0.0
	if b.track == forwardMain {
		right = layer(o.Name)
		rightWidth = textWidth(right, 9) + 8
	}
	s.fit(r.x+7, r.y+13, r.w-14-rightWidth, 11, "label", symbols.operation(o))
	if right != "" {
		s.text(r.x+r.w-7, r.y+13, 9, "faint end", right)
	}
	note, class := s.options.Notes[o], "note end"
	if note == "" && b.track == forwardMain && o.FLOPs() > 0 {
		note, class = arithmetic(o.FLOPs()), "faint end"
	}
	noteWidth := 0.0
	if note != "" {
		noteWidth = textWidth(note, 9.5) + 8
		s.text(r.x+r.w-7, r.y+25, 9.5, class, note)
	}
	result := resultShape(o)
	if note == "" || b.slots == 1 { // else there is no room
		result += " · " + size(written(o))
	}
	s.fit(r.x+7, r.y+25, r.w-14-noteWidth, 9.5, "", result)
	s.printf("</g>\n")
}

// resultShape words the shape of an operation's results, without the samples.
func resultShape(o *graph.Op) string {
	shape := o.Out[0].Shape
	same := 0
	for _, t := range o.Out {
		if t.Shape.Equal(shape) {
			same++
		}
	}
	if len(shape) == 0 {
		return symbols.shape(shape)
	}
	if o.Out[0].Role != graph.ParameterGradient {
		shape = shape[1:]
	}
	if same > 1 {
		return fmt.Sprintf("%d of %s", same, symbols.shape(shape))
	}
	return symbols.shape(shape)
}

// account is everything that is known of an operation, for the pointer.
func (s *picture) account(o *graph.Op) string {
	text := fmt.Sprintf("%s: %s (%s)\n", o.Name, plain.operation(o), o.Phase)
	for _, t := range o.In {
		text += fmt.Sprintf("reads %s, %s, %s\n", t, t.DType, size(t.Bytes()))
	}
	for _, t := range o.Out {
		text += fmt.Sprintf("writes %s, %s, %s", t, t.DType, size(t.Bytes()))
		if at := s.plan.Memory.Offset[t.ID]; at >= 0 {
			text += fmt.Sprintf(", at byte %d", at)
		}
		text += "\n"
	}
	text += arithmetic(o.FLOPs())
	if note := s.options.Notes[o]; note != "" {
		text += "\n" + note
	}
	return text
}

func (s *picture) images() {
	t := s.plan.Inputs.Images
	if t == nil {
		return
	}
	c := columns[forwardMain]
	r := rect{c.x, top, c.w, boxHeight}
	s.fill(r, plainPaint, 5)
	s.text(r.x+7, r.y+13, 11, "label", "images")
	s.text(r.x+7, r.y+25, 9.5, "", symbols.shape(t.Shape[1:])+" · "+size(t.Bytes()))
	for _, b := range s.layout.boxes {
		if b.row == 0 && !b.track.backward() {
			s.arrow(stream, point{r.x + r.w/2, r.y + r.h}, point{r.x + r.w/2, s.y[0]})
			break
		}
	}
}

// update draws the learner's update, and the buckets of gradients with the line that leads from them to it.
func (s *picture) update() {
	r := rect{bucketX, top, s.bus - bucketX + 6, boxHeight}
	apply := s.plan.Ops[len(s.plan.Ops)-1]
	s.printf(`<g><title>%s</title>`, escape(fmt.Sprintf("update of %d parameter tensors\n%s", len(apply.In), arithmetic(apply.FLOPs()))))
	s.fill(r, darkPaint, 5)
	what, word := "update", size(4*s.plan.Parameters.Size)+" of parameters"
	if o := s.plan.Ops[len(s.plan.Ops)-2]; o.Kind == graph.Aggregate {
		what, word = "aggregate, update", o.Name
	}
	s.text(r.x+8, r.y+13, 11, "label light", what)
	if note := s.options.Notes[apply]; note != "" {
		word = note
	}
	s.fit(r.x+8, r.y+25, r.w-16, 9.5, "light", word)
	s.printf("</g>\n")
	low := 0.0
	for _, b := range s.layout.buckets {
		s.bucket(b)
		low = max(low, s.y[b.from]+6)
	}
	if low > 0 {
		s.arrow(stream, point{s.bus, low}, point{s.bus, top + boxHeight})
	}
}

func (s *picture) bucket(b bar) {
	first, last := s.plan.Buckets[b.first], s.plan.Buckets[b.last]
	name := fmt.Sprintf("bucket %d", b.first)
	if b.last > b.first {
		name = fmt.Sprintf("%d–%d", b.first, b.last)
	}
	bytes := 4 * (last.End - first.Begin)
	ready := s.plan.Ops[last.Ready-1]
	r := rect{bucketX + float64(b.lane)*bucketW, s.y[b.from], bucketW - 6, s.y[b.to] + boxHeight - s.y[b.from]}
	s.line(stream, point{r.x + r.w, r.y + 6}, point{s.bus, r.y + 6})
	s.printf(`<g><title>%s</title>`, escape(fmt.Sprintf("%s: %d bytes of gradients, ready after %s of %s", name, bytes, plain.operation(ready), ready.Name)))
	s.fill(r, plainPaint, 4)
	s.fit(r.x+4, r.y+13, r.w-8, 9.5, "label", name)
	s.fit(r.x+4, r.y+25, r.w-8, 9.5, "", size(bytes))
	s.printf("</g>\n")
}
