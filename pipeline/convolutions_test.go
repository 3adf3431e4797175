package pipeline

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"gotrain/configs"
	"gotrain/cuda"
	"gotrain/cuda/cudatest"
	"gotrain/cuda/cudnn"
	"gotrain/cuda/driver"
	"gotrain/cuda/kernels"
)

// emulated is a run of two steps on the emulator, with images of 1 x 2 pixels.
func emulated(t *testing.T, dir string, args ...string) *configs.Config {
	t.Helper()
	const samples = "|features 1 2 |labels 1 0\n|features 3 4 |labels 0 1\n"
	args = append(ctf(t, dir, samples, samples), args...)
	return small(t, dir, append([]string{"device=emulator", "network.depth=8", "learner.minibatchSize=1", "learner.epochSize=2"}, args...)...)
}

// by sets the provider of a run's convolutions.
func by(p cuda.Provider) func(*Settings) { return func(s *Settings) { s.provider = p } }

// eager is a provider that wins in the forward pass when it is measured, for then it does nothing, and cannot do anything else.
func eager() *cudatest.Twin {
	p := &cudatest.Twin{TF32: true, Refuses: func(pass cudnn.Pass, _ kernels.ConvShape) bool { return pass != cudnn.Forward }}
	p.Times = func(cudnn.Pass) int { return min(p.Started()-1, 1) } // training is the second start
	return p
}

// TestConvolutionsAreChosenOnce measures when a run begins; resume, replay and evaluation go by its record, where a provider of other
// bits shows who has computed.
func TestConvolutionsAreChosenOnce(t *testing.T) {
	straight, stopped, own := t.TempDir(), t.TempDir(), t.TempDir()
	p := eager()
	first := do(t, emulated(t, straight), by(p))
	record, err := ReadRecord(only(t, straight))
	if err != nil {
		t.Fatal(err)
	}
	c := record.Convolutions
	if c == nil || c.Provider != "twin 1" || c.Provided() != len(c.Forward) || len(c.Forward) < 5 || !strings.HasSuffix(record.Engine, ", twin 1") {
		t.Fatalf("record %+v of %s, says\n%s", c, record.Engine, first.screen)
	}
	if p.Live() != 0 {
		t.Errorf("%d handles and plans are left", p.Live())
	}
	log, err := os.ReadFile(filepath.Join(only(t, straight), "log"))
	if err != nil {
		t.Fatal(err)
	}
	line := "    " + c.Forward[0] + ": forward by twin 1 in "
	if !strings.Contains(first.screen, c.String()+"\n") || strings.Contains(first.screen, line) || !strings.Contains(string(log), line) {
		t.Errorf("says\n%s\nand logs\n%s", first.screen, log)
	}
	do(t, emulated(t, own), nil)
	if bytes.Equal(model(t, straight), model(t, own)) {
		t.Error("the provider has changed no bit: it has computed nothing")
	}
	if r, err := ReadRecord(only(t, own)); err != nil || r.Convolutions != nil {
		t.Errorf("without a provider the record has %+v, %v", r.Convolutions, err)
	}

	stop(t, emulated(t, stopped), by(eager()))
	p = &cudatest.Twin{TF32: true}
	second := do(t, emulated(t, stopped), by(p))
	if strings.Contains(second.screen, "warning") || !strings.Contains(second.screen, c.String()+"\n") || p.Started() != 1 || p.Planned()[cudnn.BackwardData] != 0 {
		t.Errorf("it has chosen anew: started %d times, planned %v, says\n%s", p.Started(), p.Planned(), second.screen)
	}
	if !bytes.Equal(model(t, straight), model(t, stopped)) {
		t.Error("a run that was stopped and continued ends with other bits")
	}

	p = &cudatest.Twin{TF32: true}
	again := t.TempDir()
	do(t, emulated(t, again), func(s *Settings) { s.provider, s.Replay = p, &record })
	if !bytes.Equal(model(t, straight), model(t, again)) || p.Planned()[cudnn.BackwardData] != 0 {
		t.Errorf("a replay ends with other bits, or has chosen anew: %v", p.Planned())
	}

	p = &cudatest.Twin{TF32: true}
	do(t, emulated(t, straight, "command=[test]"), by(p))
	if n := p.Planned(); n[cudnn.Forward] == 0 || n[cudnn.Forward]%len(c.Forward) != 0 || n[cudnn.BackwardData]+n[cudnn.BackwardWeights] != 0 {
		t.Errorf("an evaluation plans %v", n)
	}
}

// TestARunWhoseProviderIsGone goes on, and says that it cannot give the same bits.
func TestARunWhoseProviderIsGone(t *testing.T) {
	dir := t.TempDir()
	stop(t, emulated(t, dir), by(eager()))
	before, err := ReadRecord(only(t, dir))
	if err != nil {
		t.Fatal(err)
	}
	s := do(t, emulated(t, dir), nil)
	c := before.Convolutions
	for _, want := range []string{
		"warning: this run has trained with " + before.Engine + ", and goes on with " + strings.TrimSuffix(before.Engine, ", twin 1") + ": it will not give the same bits",
		"warning: this run has computed " + strings.TrimPrefix(strings.Split(c.String(), " by ")[0], "Convolutions: ") + " convolutions with twin 1, which is not in use here: gotrain's kernels compute all\n",
	} {
		if !strings.Contains(s.screen, want) {
			t.Errorf("no %q in\n%s", want, s.screen)
		}
	}
	after, err := ReadRecord(only(t, dir))
	if err != nil || after.Convolutions == nil || after.Convolutions.Provided() != c.Provided() {
		t.Errorf("the record has lost what was chosen: %+v, %v", after.Convolutions, err)
	}
}

// TestAProviderThatHasNothingToDoIsForgotten goes on without it, and with the same bits.
func TestAProviderThatHasNothingToDoIsForgotten(t *testing.T) {
	dir, own := t.TempDir(), t.TempDir()
	unable := &cudatest.Twin{Refuses: func(cudnn.Pass, kernels.ConvShape) bool { return true }}
	s := stop(t, emulated(t, dir), by(unable))
	if !strings.Contains(s.screen, "Convolutions: 0 of ") {
		t.Errorf("says\n%s", s.screen)
	}
	s = do(t, emulated(t, dir), nil)
	if strings.Contains(s.screen, "warning") || !strings.Contains(s.screen, "Convolutions: 0 of ") {
		t.Errorf("says\n%s", s.screen)
	}
	do(t, emulated(t, own), nil)
	if !bytes.Equal(model(t, dir), model(t, own)) {
		t.Error("it has changed bits")
	}
}

// TestWhereThereIsNoCuDNN asks for it without a GPU, and with one.
func TestWhereThereIsNoCuDNN(t *testing.T) {
	t.Setenv("GOTRAIN_LIBCUDA", "libnowhere.so.1")
	t.Setenv("GOTRAIN_LIBCUDNN", "libnowhere.so.9")
	const arg = "network.convolution=cudnn"
	at := "argument " + arg + ": network.convolution: cudnn: "
	_, err := try(small(t, t.TempDir(), arg, "device=auto"), nil)
	_, none := driver.Open()
	if none == nil {
		t.Fatal("there is a driver")
	}
	demand(t, "without a GPU", err, at+"runs on GPUs, and this machine has none that can be used: "+none.Error()+", and network.convolution: auto")
	if ExitStatus(err) != 2 {
		t.Errorf("exit status %d", ExitStatus(err))
	}

	if _, err := exec.LookPath("gcc"); err != nil {
		t.Skip("there is no gcc, which compiles a libcuda for this test")
	}
	lib := filepath.Join(t.TempDir(), "libcuda.so.1")
	if out, err := exec.Command("gcc", "-O1", "-shared", "-fPIC", "-o", lib, "../cuda/driver/testdata/fake.c").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Setenv("GOTRAIN_LIBCUDA", lib)
	const missing = "there is no cuDNN 9 here: no libnowhere.so.9: install libcudnn9 from NVIDIA's repository, or set network.convolution to own"
	for _, where := range []string{"auto", "cuda"} {
		_, err = chooseDevice(small(t, t.TempDir(), arg, "device="+where), 1, 0)
		demand(t, "with a GPU", err, at+missing)
		d, err := chooseDevice(small(t, t.TempDir(), "device="+where), 1, 0)
		if want := "network.convolution: auto: gotrain's kernels alone: " + missing; err != nil || d.provider != nil || d.note != want {
			t.Errorf("auto: %q, %v\nwant %q", d.note, err, want)
		}
		d, err = chooseDevice(small(t, t.TempDir(), "device="+where, "network.convolution=own"), 1, 0)
		if err != nil || d.provider != nil || d.note != "" {
			t.Errorf("own: %q, %v", d.note, err)
		}
	}
}
