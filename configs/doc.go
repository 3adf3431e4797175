// Package configs reads the YAML files that describe a training run. It holds
// the schema of all keys, merges the layers of a configuration (defaults, the
// files it extends, the file itself, arguments) and checks every value with its
// file, line and column. It ships the configurations that the binary knows by
// name.
//
// It opens no data, builds no network and knows nothing of the rest of the
// project; a configuration that loads can still name a folder that is empty.
//
// Keys and schedules follow CNTK's where CNTK has one. Scalars follow the core
// schema of YAML 1.2: 1e-4 is a number, on and yes are text, 012 is twelve.
package configs
