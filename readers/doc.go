// Package readers turns data sets into minibatches: it opens and checks the files, shuffles and shards the samples,
// crops, flips and normalizes them, and fills batches ahead of the executor.
//
// The formats are the binary files of CIFAR-10 and CIFAR-100 (Krizhevsky 2009), IDX (LeCun's MNIST page; gzip too), JPEG
// and PNG pictures named by a map file or by one folder a class, CNTK's text format, and a part of Fashion-MNIST that
// lies inside the program. Crops, flips and means follow CNTK's image reader, padded crops follow He et al. 2015,
// section 4.2.
//
// Everything random is a function of (seed, sweep, sample index), so that neither the number of workers nor threads nor
// a resume changes which samples and crops come. A sweep is one pass over the whole set.
//
// It is not a general data loader: a sample is one picture with one label, and sets of CIFAR's size are held in memory
// whole. It knows nothing of networks and devices; an executor that gathers and augments by itself takes the sample plan
// (Sample) and the raw set (Resident) instead of filled batches.
package readers
