package configs

import "time"

// Config is a resolved configuration: every key has its value, every variable
// is replaced, every path is absolute. Load makes it; nobody changes it later.
type Config struct {
	Name      string   // what the run is called; default: the file's base name
	Command   []string // what to do, in order: "train", "test"
	Precision string   // "float32", "bfloat16" or "tf32"
	Device    string   // "auto", "cpu", "cuda" or "emulator"
	Threads   int      // CPU threads of one worker; 0: the cores that the process may use, over its workers
	Seed      int64
	Vars      map[string]string // as written, by lower-case name; already replaced everywhere
	OutputDir string            // folder that holds one folder a run

	Reader      Reader
	Network     Network
	Learner     Learner
	Distributed Distributed
	Checkpoint  Checkpoint
	Log         Log

	origins map[string]string
	files   []File
}

// Reader says which data set is read and how a sample becomes a tensor.
type Reader struct {
	Type string // "cifar10", "cifar100", "idx", "images", "ctf" or "embedded"

	Path     string // folder or file of the training set; empty: embedded
	TestPath string // folder or file of the test set where Path does not hold it

	// Explicit IDX files, instead of MNIST's four names in Path.
	TrainImages, TrainLabels, TestImages, TestLabels string

	LabelKind string // cifar100: "fine" or "coarse"

	NumClasses              int // images (map file), ctf; 0: found in the data
	Channels, Width, Height int // images: of a sample after the transforms; 0: found in the data

	FeatureShape  []int  // ctf: [C, H, W]
	FeatureStream string // ctf: name of the stream with the pixels
	LabelStream   string // ctf: name of the stream with the one-hot label

	Transforms []Transform // in order
	Randomize  bool        // shuffle the training set each sweep

	OnError    string // "fail" or "skip": what a record that cannot be decoded does
	MaxSkipped int    // records that may be skipped in a sweep before the run fails
	Prefetch   int    // minibatches prepared ahead; 0: none
	Workers    int    // decoding goroutines; 0: chosen by the reader
}

// Transform is one step from the stored picture to the sample. Kind says which
// of the other fields count.
type Transform struct {
	Kind string // "crop", "flip", "scale", "mean", "normalize" or "color"

	Padding   int        // crop, CropType "padded": zero pixels on each side before a random crop of the old size
	CropType  string     // crop: "padded", "randomSide" or "center"
	SideRatio [2]float64 // crop, randomSide and center: least and greatest side, of the shorter side of the picture
	Jitter    string     // crop, randomSide: "uniRatio", the ratio is drawn uniformly; "none"

	Flip string // flip: "horizontal", with probability 1/2

	Width, Height int    // scale: pixels
	Interpolation string // scale: "nearest", "linear" or "cubic"

	Mean []float64 // mean, normalize: one value, or one a channel; on pixels from 0 to 255
	Std  []float64 // normalize: as Mean; the result is (pixel - mean) / std
	File string    // mean: CNTK's mean file (XML), instead of Mean

	Color string // color: "gray" or "rgb"

	Origin string // where the transform was written, for messages
}

// Network says which network is trained.
type Network struct {
	Type        string // "resnet"
	Depth       int    // layers with weights: 6n+2, or 18, 34, 50, 101, 152
	Form        string // "cifar" or "imagenet"; resolved, never "auto"
	Shortcut    string // "A": zero-padded identity; "B": 1x1 projection with batch norm
	BatchNorm   BatchNorm
	Init        string // model file to start from; empty: He initialization by (seed, name)
	Convolution string // "auto", "own" or "cudnn": who provides convolutions on cuda
}

// BatchNorm holds the settings of all batch normalizations of a network.
type BatchNorm struct {
	Epsilon float64 // added to the variance

	// Exactly one of the two is positive. RunningUpdate is the weight of the
	// newest minibatch in the running statistics; NormalizationTimeConstant
	// gives it as 1 - exp(-samples of the minibatch / constant), as CNTK does.
	RunningUpdate             float64
	NormalizationTimeConstant float64

	Sync bool // statistics over the minibatches of all workers
}

// Learner says how gradients change the parameters.
type Learner struct {
	Type          string // "sgd", "momentumSGD" or "adam"
	MinibatchSize int    // samples, of all workers together
	MaxEpochs     int
	EpochSize     int // samples; 0: one sweep over the training set

	// Exactly one of the three is set.
	LearningRatesPerMB     PerEpoch // applied to the gradient of the minibatch's mean loss
	LearningRatesPerSample PerEpoch // times the number of samples of the minibatch
	LearningRateSchedule   []Piece  // one after the other; the last rate holds on

	// Exactly one of the three is set for momentumSGD, none for the others.
	MomentumPerMB          PerEpoch // in [0, 1)
	MomentumPerSample      PerEpoch // in [0, 1); to the power of the minibatch's samples
	MomentumAsTimeConstant PerEpoch // samples; exp(-samples of the minibatch / constant); 0: no momentum

	UnitGain bool // v = m v + (1-m) g, as in CNTK; false: v = m v + g
	UseNAG   bool // Nesterov's form of momentum

	L2RegWeight          float64 // the gradient gets L2RegWeight times the weight added
	GradientClippingNorm float64 // greatest norm of the whole gradient; 0: no limit

	NumMBsToShowResult int // minibatches between two lines of progress; 0: none

	Beta1, Beta2, Epsilon float64 // adam
}

// Distributed says how many workers train and how they exchange gradients.
type Distributed struct {
	Workers         int
	Bits            Bits
	Transport       string // "auto", "local", "mpi" or "nccl"
	ZeroThreshold   bool   // 1 bit: threshold at zero; false: at the column's mean
	Columns         int    // values of a quantized column; 0: one output channel
	BucketSize      int    // bytes of float32 gradients exchanged at a time; 0: chosen by the cost model
	Overlap         bool   // exchange finished buckets while the backward pass goes on
	DoubleBuffering bool   // update with the aggregate of the step before
	ScaleMinibatch  bool   // minibatchSize is that of one worker, and rates grow with the workers
	Timeout         time.Duration
	WarmStart       WarmStart
	BlockMomentum   BlockMomentum
}

// WarmStart says how training begins before gradients are quantized.
type WarmStart struct {
	Samples int64  // samples seen by all workers together; 0: no warm start
	Mode    string // "dense": aggregated unquantized; "single": every worker trains the same minibatch alone
}

// BlockMomentum holds the settings of CNTK's blockwise model-update filtering.
type BlockMomentum struct {
	BlockSize int64 // samples of all workers between two synchronizations; 0: off

	// MomentumAsTimeConstant, in samples, counts where it is positive: the
	// momentum is exp(-BlockSize/constant). Momentum counts otherwise, 0 being
	// model averaging; where neither was written, it is 1 - 1/workers.
	Momentum               float64
	MomentumAsTimeConstant float64

	LearningRate  float64
	Nesterov      bool
	ResetMomentum bool // clear the workers' own momentum after a block
}

// Checkpoint says when the state of training is saved.
type Checkpoint struct {
	EveryEpochs      int // 0: only where EveryMinibatches says
	EveryMinibatches int // 0: only at the ends of epochs
	Keep             int // newest checkpoints kept
}

// Log says where metrics go beside the terminal and the run's folder.
type Log struct {
	TensorBoardDir string // folder for event files; empty: none
	JSON           string // file for JSON lines; empty: none
	MetricsAddress string // host:port that serves Prometheus metrics; empty: none
}

// File is a file that a configuration came from.
type File struct {
	Path    string // absolute, or "shipped:NAME"
	Content []byte
}
