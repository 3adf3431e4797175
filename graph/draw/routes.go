package draw

// edge draws the line of an edge. Within a column it is straight; shortcuts leave a box to the right and come in from
// the right, straight down a lane of their own or through the boxes of the side branch.
func (s *picture) edge(e edge) {
	from, to := s.rect(e.from), s.rect(e.to)
	exit, entry, skew := from.y+from.h, to.y, 5.0
	if e.to.track.backward() {
		exit, entry, skew = from.y, to.y+to.h, -5.0
	}
	right, left := from.x+from.w, to.x+to.w // where shortcuts leave, and come in
	leave, arrive := from.y+from.h/2+skew, to.y+to.h/2-skew
	middle, target := from.x+from.w/2, to.x+to.w/2
	switch {
	case e.from.track != e.to.track && e.from.track.backward() != e.to.track.backward(): // the loss turns around
		s.arrow(stream, point{right, from.y + from.h/2}, point{target, from.y + from.h/2}, point{target, entry})
	case e.from.track.side() && !e.to.track.side():
		s.arrow(shortcut, point{middle, exit}, point{middle, arrive}, point{left, arrive})
	case e.to.track.side() && !e.from.track.side():
		s.arrow(shortcut, point{right, leave}, point{target, leave}, point{target, entry})
	case e.from.row == e.to.row:
		s.arrow(stream, point{from.x, from.y + from.h/2}, point{left, from.y + from.h/2})
	case s.between(e):
		lane := columns[e.from.track].x + columns[e.from.track].w + laneOffset
		s.arrow(shortcut, point{right, leave}, point{lane, leave}, point{lane, arrive}, point{left, arrive})
	default:
		class := stream
		if e.from.track.side() {
			class = shortcut
		}
		// A straight line through the middle of the narrower box where that meets the wider one, else a step.
		x := target
		if from.w < to.w {
			x = middle
		}
		if from.x <= x && x <= from.x+from.w && to.x <= x && x <= to.x+to.w {
			s.arrow(class, point{x, exit}, point{x, entry})
			return
		}
		half := (exit + entry) / 2
		s.arrow(class, point{middle, exit}, point{middle, half}, point{target, half}, point{target, entry})
	}
}

// between says whether other boxes stand between the ends of an edge within a column.
func (s *picture) between(e edge) bool {
	low, high := min(e.from.row, e.to.row), max(e.from.row, e.to.row)
	for _, b := range s.layout.boxes {
		if b.track == e.from.track && low < b.row && b.row < high {
			return true
		}
	}
	return false
}
