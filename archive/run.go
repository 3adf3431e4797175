package archive

import (
	"time"

	"gotrain/pipeline"
)

// Crashed is the status of a run whose process is gone without having said how it ended.
const Crashed = "crashed"

// Run is what the index says of a run.
type Run struct {
	Folder string `json:"folder"` // its name below the folder of all runs
	Name   string `json:"name"`
	Hash   string `json:"hash"`   // of the configuration, hexadecimal
	Status string `json:"status"` // running, finished, failed, interrupted, diverged, crashed
	Error  string `json:"error,omitempty"`

	Started  time.Time `json:"started"`
	Ended    time.Time `json:"ended,omitzero"`
	Attempts int       `json:"attempts"`

	Device    string `json:"device"`
	Precision string `json:"precision"`
	Workers   int    `json:"workers"`
	Bits      string `json:"bits"`

	Epochs    int      `json:"epochs"`    // finished
	MaxEpochs int      `json:"maxEpochs"` // that the configuration asks for
	Steps     int64    `json:"steps"`
	Loss      *float64 `json:"loss"`        // of the last epoch's training
	BestError *float64 `json:"bestError"`   // percent; of tests, or of training where there was no test
	BestOf    string   `json:"bestErrorOf"` // test or training

	SamplesPerSecond float64 `json:"samplesPerSecond"` // of all finished epochs
	Seconds          float64 `json:"seconds"`          // spent on them

	Version string `json:"version"`
	Engine  string `json:"engine"`
	Team    string `json:"team"`
}

// effective is the status of a run whose record has a status: running means that a process says so, if it still lives.
func effective(dir, recorded string) (string, error) {
	if recorded != pipeline.Running {
		return recorded, nil
	}
	held, err := pipeline.Held(dir)
	if err != nil {
		return "", err
	}
	if held {
		return pipeline.Running, nil
	}
	// A process that has ended between the two looks has written its last status.
	if again, err := pipeline.ReadRecord(dir); err == nil && again.Status != pipeline.Running {
		return again.Status, nil
	}
	return Crashed, nil
}
