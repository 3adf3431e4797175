// Package configs reads the YAML files that describe a training run. It holds
// the schema of all keys, merges the layers of a configuration and checks every
// value, so that an error names file, line, column, key, value and remedy. It
// ships the configurations that the binary knows by name.
//
// It opens no data, builds no network and knows nothing of the rest of the
// project; a configuration that loads can still name a folder that is empty.
//
// Keys and schedules follow CNTK's where CNTK has one. Scalars follow the core
// schema of YAML 1.2: 1e-4 is a number, on and yes are text, 012 is twelve.
//
// The layers are, each over those before: the defaults; the files that a file
// extends, in their order; the file; arguments key=value. A mapping is merged
// key by key, a list or schedule replaces the one before, null brings the
// default back. Of keys that exclude one another a later layer's choice puts
// out an earlier one's. A name is the file's own and is not taken over by those
// that extend it.
//
// Keys are matched without regard to case. $name$, ${NAME}, ${NAME:-default}
// and $$ in text are replaced before its type is looked at. A relative path is
// relative to the file that holds it, in an argument or from the environment to
// the working directory; ~/ is the home folder.
package configs
