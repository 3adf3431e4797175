// Package sweep makes many runs from one file: it proposes trials, each a configuration, trains each one in a process of its own, with
// several seeds if asked, and says which is best.
//
// It trains nothing itself and knows nothing of training but the folders that runs leave (package pipeline) and how their record is
// read (package archive). Strategies are a grid, random search (Bergstra and Bengio, "Random search for hyper-parameter optimization",
// JMLR 13, 2012) and TPE (tpe.go); bad trials can be stopped early (halving.go).
//
// All that a sweep knows is in its folder: the trials' configurations as they were when it began, a journal to which it appends, and the
// runs. It can be killed at any time: the same command goes on from there.
package sweep
