package draw

import (
	"fmt"
	"slices"
	"testing"

	"gotrain/graph"
)

func names(bands []band) []string {
	var s []string
	for _, b := range bands {
		s = append(s, fmt.Sprintf("%s %d-%d x%d", b.name, b.from, b.to, b.times))
	}
	return s
}

func TestBlocksInSuccessionAreDrawnOnce(t *testing.T) {
	for _, c := range []struct {
		name   string
		o      graph.Options
		stages []int
		notes  bool
		want   []string
	}{
		{"three are not", graph.Options{}, []int{3}, false, []string{"stage1.0 2-5 x1", "stage1.1 6-9 x1", "stage1.2 10-13 x1"}},
		// The last block of all stands alone: its gradient comes from one side only.
		{"four and the last", graph.Options{}, []int{5}, false, []string{"stage1.0–3 2-5 x4", "stage1.4 6-9 x1"}},
		{"projections stand alone", graph.Options{}, []int{4, 7}, false,
			[]string{"stage1.0–3 2-5 x4", "stage2.0 6-9 x1", "stage2.1–5 10-13 x5", "stage2.6 14-17 x1"}},
		{"forward passes have no last block", graph.Options{Inference: true}, []int{6}, false, []string{"stage1.0–5 2-5 x6"}},
		{"different notes", graph.Options{Inference: true}, []int{4}, true,
			[]string{"stage1.0 2-5 x1", "stage1.1 6-9 x1", "stage1.2 10-13 x1", "stage1.3 14-17 x1"}},
		{"whatever the buckets", graph.Options{BucketBytes: 1}, []int{5}, false, []string{"stage1.0–3 2-5 x4", "stage1.4 6-9 x1"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := net(t, c.o, c.stages...)
			var o Options
			if c.notes {
				o.Notes = notes(p)
			}
			if got := names(arrange(p, o).blocks); !slices.Equal(got, c.want) {
				t.Errorf("blocks are %q, want %q", got, c.want)
			}
		})
	}
}

func TestGroupsAndTracks(t *testing.T) {
	p := net(t, graph.Options{}, 1, 1)
	l := arrange(p, Options{})
	if got, want := names(l.groups), []string{"stem 0-1 x1", "stage1 2-5 x1", "stage2 6-9 x1", "pool, fc, loss 10-12 x1"}; !slices.Equal(got, want) {
		t.Errorf("groups are %q, want %q", got, want)
	}
	place := map[string]cell{}
	for _, b := range l.boxes {
		place[b.op.Kind.String()+" "+b.op.Name] = b.cell
	}
	for op, want := range map[string]cell{
		"conv stage2.0.conv1":                          {6, forwardMain},
		"conv stage2.0.shortcut.conv":                  {6, forwardSide},
		"batch norm stage2.0.shortcut.bn":              {7, forwardSide},
		"batch norm stage2.0.bn2":                      {9, forwardMain},
		"conv backward data stage2.0.conv1":            {6, backwardMain},
		"conv backward weights stage2.0.conv1":         {6, backwardMain},
		"conv backward weights stage2.0.shortcut.conv": {6, backwardSide},
		"batch norm backward stem.bn":                  {1, backwardMain},
		"softmax cross-entropy loss":                   {12, forwardMain},
	} {
		if got, ok := place[op]; !ok || got != want {
			t.Errorf("%s is at %v, want %v", op, got, want)
		}
	}
}

// The edges are what a reader follows: with the longest path, each shortcut is there in both directions.
func TestEdgesAreTheDataFlow(t *testing.T) {
	l := arrange(net(t, graph.Options{}, 1, 1), Options{})
	var got []string
	for _, e := range l.edges {
		if e.from.op.Name == "stage1.0.bn2" || e.to.op.Name == "stage1.0.bn2" {
			got = append(got, fmt.Sprintf("%s %s -> %s %s", e.from.op.Phase, e.from.op.Name, e.to.op.Name, e.to.op.Kind))
		}
	}
	slices.Sort(got)
	want := []string{
		"backward stage1.0.bn2 -> stage1.0.conv2 conv backward data",
		"backward stage1.0.bn2 -> stage1.0.conv2 conv backward weights",
		"backward stage1.0.bn2 -> stem.bn batch norm backward",
		"backward stage2.0.conv1 -> stage1.0.bn2 batch norm backward",
		"backward stage2.0.shortcut.conv -> stage1.0.bn2 batch norm backward",
		"forward stage1.0.bn2 -> stage2.0.conv1 conv",
		"forward stage1.0.bn2 -> stage2.0.shortcut.conv conv",
		"forward stage1.0.conv2 -> stage1.0.bn2 batch norm",
		"forward stem.bn -> stage1.0.bn2 batch norm",
	}
	if !slices.Equal(got, want) {
		t.Errorf("edges are\n%q, want\n%q", got, want)
	}
}

func TestBoxesStayApartAndInside(t *testing.T) {
	for _, o := range []graph.Options{{}, {NoFusion: true}, {Inference: true}, {BucketBytes: 1}} {
		p := net(t, o, 2, 6)
		s := &picture{plan: p, layout: arrange(p, Options{}), right: framesRight}
		if o.Inference {
			s.right = inferRight
		}
		s.setRows()
		for i, b := range s.layout.boxes {
			r := s.rect(b)
			if r.x < margin || r.x+r.w > s.right || r.y < top || r.y+r.h > s.height {
				t.Errorf("%+v: %s of %s is outside: %+v", o, b.op.Kind, b.op.Name, r)
			}
			for _, c := range s.layout.boxes[:i] {
				q := s.rect(c)
				if r.x < q.x+q.w && q.x < r.x+r.w && r.y < q.y+q.h && q.y < r.y+r.h {
					t.Errorf("%+v: %s of %s lies on %s of %s", o, b.op.Kind, b.op.Name, c.op.Kind, c.op.Name)
				}
			}
		}
	}
}

func TestBucketsStandBesideTheirRows(t *testing.T) {
	for _, c := range []struct {
		name   string
		bytes  int
		stages []int
		want   []bar
	}{
		{"one", 0, []int{1}, []bar{{0, 0, 0, 7, 0}}},
		{"several", 8 << 10, []int{1, 1}, []bar{{0, 0, 8, 11, 0}, {1, 1, 2, 7, 0}, {2, 2, 0, 1, 0}}},
		// Blocks 0 to 3 are drawn as one, in rows 2 to 5.
		{"within blocks drawn as one", 5 << 10, []int{5}, []bar{{0, 0, 6, 11, 0}, {1, 2, 2, 5, 0}, {3, 3, 0, 5, 1}}},
		{"across blocks drawn as one", 8 << 10, []int{7}, []bar{{0, 0, 2, 11, 0}, {1, 2, 2, 5, 1}, {3, 3, 0, 5, 2}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := net(t, graph.Options{BucketBytes: c.bytes}, c.stages...)
			if got := arrange(p, Options{}).buckets; !slices.Equal(got, c.want) {
				t.Errorf("of %v, bars are %v, want %v", p.Buckets, got, c.want)
			}
		})
	}
}
