package configs

import "reflect"

// schema is the table of all keys, in the order in which they are printed.
var schema = newTable(Config{}, []Key{
	{Path: "extends", typ: reflect.TypeFor[[]string](), CNTK: "include",
		Doc: "Files, or shipped configurations by name, whose keys this file takes over and changes; the later of two wins."},
	{Path: "name", Doc: "What the run is called; without it, the file's name."},
	{Path: "command", Default: "[train, test]", Values: []string{"train", "test"}, CNTK: "action",
		Doc: "What to do, in order."},
	{Path: "precision", Default: "float32", Values: []string{"float32", "bfloat16", "tf32"},
		Doc: "Number format: float32; bfloat16 activations with float32 master weights; or, on cuda, float32 with tf32 products."},
	{Path: "device", Default: "auto", Values: []string{"auto", "cpu", "cuda", "emulator"}, CNTK: "deviceId",
		Doc: "Where training runs; auto takes a GPU where there is one. The emulator runs the GPU's kernels on the CPU, slowly."},
	{Path: "threads", Default: "auto", Zero: "auto", Range: within(1, 4096), CNTK: "numCPUThreads",
		Doc: "CPU threads of one worker; auto: the cores that the process may use, over its workers."},
	{Path: "seed", Default: "1", CNTK: "randomSeed",
		Doc: "Where everything random starts from: initial weights, order, crops and flips."},
	{Path: "vars",
		Doc: "Values that other keys use as $name$, by names of your own."},
	{Path: "outputDir", Default: "runs", IsPath: true, Aside: true, CNTK: "modelPath",
		Doc: "Folder that holds one folder a run."},

	{Path: "reader.type", Required: true, Values: []string{"cifar10", "cifar100", "idx", "images", "ctf", "embedded"}, CNTK: "readerType",
		Doc: "Format of the data: the binary files of CIFAR-10 or CIFAR-100, MNIST's IDX, JPEG and PNG images, CNTK's text format, or the small set inside the binary."},
	{Path: "reader.path", IsPath: true, CNTK: "file mapFile",
		Doc: "Training data: the folder of a CIFAR or IDX set; a map file (path, tab, label) or a folder with one folder a class; a text file (ctf)."},
	{Path: "reader.testPath", IsPath: true,
		Doc: "Test data, where path does not hold it: images and ctf."},
	{Path: "reader.trainImages", IsPath: true, Doc: "idx: file of the training images, instead of MNIST's name in path."},
	{Path: "reader.trainLabels", IsPath: true, Doc: "idx: file of the training labels, instead of MNIST's name in path."},
	{Path: "reader.testImages", IsPath: true, Doc: "idx: file of the test images, instead of MNIST's name in path."},
	{Path: "reader.testLabels", IsPath: true, Doc: "idx: file of the test labels, instead of MNIST's name in path."},
	{Path: "reader.labelKind", Default: "fine", Values: []string{"fine", "coarse"},
		Doc: "cifar100: the 100 fine or the 20 coarse classes."},
	{Path: "reader.numClasses", Default: "auto", Zero: "auto", Range: within(1, 1<<20), CNTK: "labelDim",
		Doc: "Number of classes; auto: as the data says."},
	{Path: "reader.channels", Default: "auto", Zero: "auto", Range: within(1, 4096),
		Doc: "images: channels of a sample after the transforms, 1 or 3; auto: as the data says."},
	{Path: "reader.width", Default: "auto", Zero: "auto", Range: within(1, 1<<16),
		Doc: "images: pixels of a row after the transforms; auto: as the transforms or the data say."},
	{Path: "reader.height", Default: "auto", Zero: "auto", Range: within(1, 1<<16),
		Doc: "images: rows after the transforms; auto: as the transforms or the data say."},
	{Path: "reader.featureShape", Range: within(1, 1<<16),
		Doc: "ctf: [channels, height, width] of the features of a sample."},
	{Path: "reader.featureStream", Default: "features", Doc: "ctf: name of the stream that holds the pixels."},
	{Path: "reader.labelStream", Default: "labels", Doc: "ctf: name of the stream that holds the class."},
	{Path: "reader.transforms",
		Doc: "Steps from the stored picture to the sample, in order; in evaluation random crops are central and nothing is flipped."},
	{Path: "reader.randomize", Default: "true", Doc: "Shuffle the training set in each sweep."},
	{Path: "reader.onError", Default: "fail", Values: []string{"fail", "skip"},
		Doc: "What a record that cannot be decoded does: end the run, or keep its place with weight 0."},
	{Path: "reader.maxSkipped", Default: "100", Range: within(0, 1<<31-1),
		Doc: "Records that onError: skip may pass over in a sweep before the run fails."},
	{Path: "reader.prefetch", Default: "4", Range: within(0, 1024), Aside: true, Doc: "Minibatches prepared ahead."},
	{Path: "reader.workers", Default: "auto", Zero: "auto", Range: within(1, 4096), Aside: true, CNTK: "numberOfWorkerThreads",
		Doc: "Goroutines that decode; auto: as many as the format needs."},

	{Path: "network.type", Default: "resnet", Values: []string{"resnet"}, Doc: "The family of networks."},
	{Path: "network.depth", Required: true, Range: within(8, 100000),
		Doc: "Layers with weights: 6n+2 in the CIFAR form; 18, 34, 50, 101 or 152 in the ImageNet form."},
	{Path: "network.form", Default: "auto", Values: []string{"auto", "cifar", "imagenet"},
		Doc: "Which form; auto: imagenet for 18, 34, 50, 101 and 152, cifar for other depths."},
	{Path: "network.shortcut", Default: "B", Values: []string{"A", "B"},
		Doc: "Where shapes change, A pads the identity with zeros, B projects by a 1x1 convolution with batch normalization."},
	{Path: "network.batchNorm.epsilon", Default: "1e-05", Range: above(0), Doc: "Added to the variance."},
	{Path: "network.batchNorm.runningUpdate", Default: "0.1", Range: share(), Group: "running",
		Doc: "Weight of the newest minibatch in the running statistics."},
	{Path: "network.batchNorm.normalizationTimeConstant", Range: above(0), Group: "running",
		Doc: "The same weight as 1 - exp(-n/c) for a minibatch of n samples and this constant c, in samples."},
	{Path: "network.batchNorm.sync", Default: "false", Doc: "Take statistics over the minibatches of all workers."},
	{Path: "network.init", Default: "he", Zero: "he", IsPath: true,
		Doc: "Initial weights: drawn as He et al. do, or a model file to start from."},
	{Path: "network.convolution", Default: "auto", Values: []string{"auto", "own", "cudnn"},
		Doc: "Who computes convolutions on cuda; auto: the faster, measured for each layer at start."},

	{Path: "learner.type", Default: "momentumSGD", Values: []string{"sgd", "momentumSGD", "adam"}, Doc: "The rule of the update."},
	{Path: "learner.minibatchSize", Default: "256", Range: within(1, 1<<31-1), Doc: "Samples of a minibatch, of all workers together."},
	{Path: "learner.maxEpochs", Required: true, Range: within(1, 1<<31-1), Doc: "Epochs to train."},
	{Path: "learner.epochSize", Default: "0", Range: atLeast(0),
		Doc: "Samples of an epoch, sweeps going on across epochs; 0: one sweep over the training set."},
	{Path: "learner.learningRatesPerMB", Range: atLeast(0), Group: "rate",
		Doc: "Learning rates by epoch, for the gradient of the minibatch's mean loss."},
	{Path: "learner.learningRatesPerSample", Range: atLeast(0), Group: "rate",
		Doc: "Learning rates by epoch, times the number of samples of the minibatch."},
	{Path: "learner.learningRateSchedule", Group: "rate",
		Doc: "Learning rates as pieces, one after the other: constant, linear, cosine, warmUp, oneCycle."},
	{Path: "learner.momentumPerMB", Default: "0.9", Range: belowOne(), Group: "momentum", Doc: "Momentum by epoch."},
	{Path: "learner.momentumPerSample", Range: belowOne(), Group: "momentum",
		Doc: "Momentum by epoch, to the power of the number of samples of the minibatch."},
	{Path: "learner.momentumAsTimeConstant", Range: atLeast(0), Group: "momentum",
		Doc: "Momentum by epoch as exp(-n/c) for a minibatch of n samples and this constant c, in samples; 0: none."},
	{Path: "learner.unitGain", Default: "true", CNTK: "useUnitGainMomentum",
		Doc: "v = m v + (1-m) g, CNTK's rule; false: v = m v + g, with rates 1/(1-m) times smaller for the same steps."},
	{Path: "learner.useNAG", Default: "false", Doc: "Nesterov's form of momentum."},
	{Path: "learner.L2RegWeight", Default: "0", Range: atLeast(0), Doc: "The gradient gets this many times the weight added."},
	{Path: "learner.gradientClippingNorm", Default: "0", Range: atLeast(0),
		Doc: "Greatest norm of the whole gradient, after aggregation; a longer one is scaled down. 0: no limit."},
	{Path: "learner.numMBsToShowResult", Default: "10", Range: atLeast(0), Aside: true,
		Doc: "Minibatches between two lines of progress; 0: none."},
	{Path: "learner.beta1", Default: "0.9", Range: belowOne(), Doc: "adam: decay of the gradient's mean."},
	{Path: "learner.beta2", Default: "0.999", Range: belowOne(), Doc: "adam: decay of the squared gradient's mean."},
	{Path: "learner.epsilon", Default: "1e-08", Range: above(0), Doc: "adam: added to the root of the squared gradient's mean."},

	{Path: "distributed.workers", Default: "1", Range: within(1, 65536), Doc: "Workers that share each minibatch."},
	{Path: "distributed.bits", Default: "32", CNTK: "gradientBits",
		Doc: "Bits that a gradient value is sent with, by epoch; 32: as it is; auto: measured at the first start."},
	{Path: "distributed.transport", Default: "auto", Values: []string{"auto", "local", "mpi", "nccl"},
		Doc: "How workers exchange: auto, without mpiexec local; under it nccl where each process has one worker and a GPU of its own and NCCL is found, else mpi. NCCL sums 32 bits in an order of its own: their last bits differ."},
	{Path: "distributed.zeroThreshold", Default: "false", CNTK: "useZeroThresholdFor1BitQuantization",
		Doc: "1 bit: tell values by their sign, as CNTK does where nothing is said; false: by the mean of their column, which loses less."},
	{Path: "distributed.columns", Default: "channel", Zero: "channel", Range: within(1, 1<<31-1),
		Doc: "Values that share one scale when quantized: one output channel of a weight, or a number of values."},
	{Path: "distributed.bucketSize", Default: "auto", Zero: "auto", Range: within(4, 1<<40),
		Doc: "Bytes of float32 gradients exchanged at a time; auto: by the cost model."},
	{Path: "distributed.overlap", Default: "true", Doc: "Exchange finished buckets while the backward pass goes on."},
	{Path: "distributed.doubleBuffering", Default: "false", CNTK: "useBufferedAsyncGradientAggregation",
		Doc: "Update with the aggregate of the step before, so that an exchange has a whole step's time."},
	{Path: "distributed.scaleMinibatch", Default: "false",
		Doc: "minibatchSize is that of one worker, and rates per minibatch grow with the number of workers."},
	{Path: "distributed.timeout", Default: "60s", Aside: true, Doc: "Longest time that an exchange may take before the run ends and names who was missing."},
	{Path: "distributed.warmStart.samples", Default: "0", Range: atLeast(0), Short: true, CNTK: "parallelizationStartEpoch distributedAfter",
		Doc: "Samples trained, by all workers together, before gradients are quantized."},
	{Path: "distributed.warmStart.mode", Default: "dense", Values: []string{"dense", "single"},
		Doc: "Until then gradients are sent at 32 bits, or every worker trains the same whole minibatch alone, as in CNTK."},
	{Path: "distributed.blockMomentum.blockSize", Default: "0", Range: atLeast(0), CNTK: "blockSize blockSizePerWorker",
		Doc: "Samples, of all workers together, between two synchronizations of models, for which checkpoints and stops wait; 0: off."},
	{Path: "distributed.blockMomentum.momentum", Range: belowOne(), Group: "blockMomentum",
		Doc: "Momentum of a block; 0: models are averaged; without it, 1 - 1/workers."},
	{Path: "distributed.blockMomentum.momentumAsTimeConstant", Range: above(0), Group: "blockMomentum", CNTK: "blockMomentumAsTimeConstant",
		Doc: "Momentum of a block as exp(-blockSize/c) for this constant c, in samples."},
	{Path: "distributed.blockMomentum.learningRate", Default: "1", Range: above(0), CNTK: "blockLearningRate",
		Doc: "Factor of the change of the models over a block."},
	{Path: "distributed.blockMomentum.nesterov", Default: "true", CNTK: "useNesterovMomentum",
		Doc: "Nesterov's form of block momentum."},
	{Path: "distributed.blockMomentum.resetMomentum", Default: "true", CNTK: "resetSGDMomentum",
		Doc: "Clear the workers' own momentum after each block."},

	{Path: "checkpoint.everyEpochs", Default: "1", Range: atLeast(0), Aside: true, Doc: "Epochs between two checkpoints; 0: none by epochs."},
	{Path: "checkpoint.everyMinibatches", Default: "0", Range: atLeast(0), Aside: true,
		Doc: "Minibatches between two checkpoints inside an epoch; 0: none."},
	{Path: "checkpoint.keep", Default: "3", Range: atLeast(1), Aside: true, Doc: "Newest checkpoints that are kept."},

	{Path: "log.tensorBoardDir", IsPath: true, Aside: true, Doc: "Folder for TensorBoard's event files."},
	{Path: "log.json", IsPath: true, Aside: true, Doc: "File for one JSON object a minibatch and epoch."},
	{Path: "log.metricsAddress", Aside: true, Doc: "host:port that serves metrics for Prometheus while training."},
})

// notHere says what to do instead of the keys of CNTK that have no counterpart.
var notHere = map[string]string{
	"l1regweight":                       "L1 regularization is not supported: use learner.L2RegWeight",
	"clippingthresholdpersample":        "clipping of single samples is not supported: use learner.gradientClippingNorm, the greatest norm of the whole gradient",
	"gradientclippingwithtruncation":    "truncation of single values is not supported: use learner.gradientClippingNorm, which scales the whole gradient",
	"parallelizationmethod":             "the method follows from distributed.bits and distributed.blockMomentum",
	"usebufferedasyncgradientaggregate": "use distributed.doubleBuffering",
	"action":                            "use command, such as [train, test]",
	"tracelevel":                        "there are no trace levels: see numMBsToShowResult in learner",
	"modelpath":                         "models lie in the run's folder: see outputDir",
	"configfile":                        "give the file as gotrain -config FILE",
	"<<":                                "merge keys are not in YAML 1.2: use extends, or repeat the keys",
}

// Schema returns the description of every key, in the order in which they are
// printed.
func Schema() []Key { return described(schema) }

// TransformSchema and PieceSchema describe the items of reader.transforms and
// of learner.learningRateSchedule: each item is a mapping with one key.
func TransformSchema() []Key { return described(transformTable) }

// PieceSchema is described at TransformSchema.
func PieceSchema() []Key { return described(pieceTable) }

func described(t *table) []Key {
	keys := make([]Key, len(t.keys))
	for i, k := range t.keys {
		keys[i] = *k
	}
	return keys
}
