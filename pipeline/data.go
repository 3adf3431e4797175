package pipeline

import (
	"encoding/hex"
	"fmt"

	"gotrain/configs"
	"gotrain/readers"
)

// dataRecord is what a run remembers of its training set.
type dataRecord struct {
	Fingerprint string   `json:"fingerprint"` // of readers.Dataset, hexadecimal; empty in records of older programs
	Samples     int      `json:"samples"`
	Classes     []string `json:"classes"`
}

func recordData(ds readers.Dataset) dataRecord {
	sum := ds.Fingerprint()
	return dataRecord{hex.EncodeToString(sum[:]), ds.Len(), ds.Classes()}
}

// dataKey begins the keys of changes that are not of the configuration.
const dataKey = "training data: "

// changes lists what differs between the data that a run was trained on and other data.
func (d dataRecord) changes(now dataRecord) []configs.Change {
	if d.Fingerprint == "" || d.Fingerprint == now.Fingerprint && len(d.classChanges(now.Classes)) == 0 {
		return nil
	}
	changes := d.classChanges(now.Classes)
	if d.Samples != now.Samples {
		changes = append(changes, configs.Change{Key: dataKey + "samples", Old: fmt.Sprint(d.Samples), New: fmt.Sprint(now.Samples)})
	}
	if len(changes) == 0 {
		changes = append(changes, configs.Change{Key: dataKey + "fingerprint", Old: d.Fingerprint[:8], New: now.Fingerprint[:8]})
	}
	return changes
}

// classChanges compares the names of classes.
func (d dataRecord) classChanges(now []string) []configs.Change {
	if d.Fingerprint == "" {
		return nil
	}
	if len(d.Classes) != len(now) {
		return []configs.Change{{Key: dataKey + "classes", Old: fmt.Sprint(len(d.Classes)), New: fmt.Sprint(len(now))}}
	}
	first, differ := 0, 0
	for i := range now {
		if d.Classes[i] != now[i] {
			if differ == 0 {
				first = i
			}
			differ++
		}
	}
	if differ == 0 {
		return nil
	}
	key := fmt.Sprintf("%sclass %d", dataKey, first)
	if differ > 1 {
		key += fmt.Sprintf(", the first of %d that differ", differ)
	}
	return []configs.Change{{Key: key, Old: d.Classes[first], New: now[first]}}
}
