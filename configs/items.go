package configs

// transformTable holds the keys of an item of reader.transforms, by kind.
var transformTable = newTable(Transform{}, []Key{
	{Path: "crop.padding", to: "Padding", Range: within(1, 1000), Group: "crop",
		Doc: "A random crop of the picture's own size after this many zero pixels are added on each side."},
	{Path: "crop.type", to: "CropType", Values: []string{"randomSide", "center"}, Group: "crop", CNTK: "cropType",
		Doc: "A square crop at a random place with a random side, or at the center."},
	{Path: "crop.sideRatio", to: "SideRatio", Range: share(),
		Doc: "randomSide, center: the crop's side by the picture's shorter side, as one number or [least, greatest]."},
	{Path: "crop.jitterType", to: "Jitter", Values: []string{"uniRatio", "none"},
		Doc: "randomSide: uniRatio draws the ratio evenly between least and greatest; none takes the least."},
	{Path: "flip", to: "Flip", Values: []string{"horizontal"}, Doc: "Mirror every second picture, at random."},
	{Path: "scale.width", to: "Width", Required: true, Range: within(1, 1<<14), Doc: "Pixels of a row after scaling."},
	{Path: "scale.height", to: "Height", Required: true, Range: within(1, 1<<14), Doc: "Rows after scaling."},
	{Path: "scale.interpolation", to: "Interpolation", Default: "linear", Values: []string{"nearest", "linear", "cubic"}, CNTK: "interpolations",
		Doc: "How a pixel between pixels is found."},
	{Path: "mean.values", to: "Mean", Group: "mean", Doc: "Subtracted from the pixels (0 to 255): one value, or one a channel."},
	{Path: "mean.file", to: "File", IsPath: true, Group: "mean", CNTK: "meanFile", Doc: "CNTK's mean file (XML), one value a pixel."},
	{Path: "normalize.mean", to: "Mean", Required: true, Doc: "Subtracted from the pixels (0 to 255): one value, or one a channel."},
	{Path: "normalize.std", to: "Std", Required: true, Range: above(0), Doc: "Divides the difference: one value, or one a channel."},
	{Path: "color", to: "Color", Values: []string{"gray", "rgb"}, Doc: "Convert to one or to three channels."},
})

// pieceTable holds the keys of an item of learner.learningRateSchedule, by
// kind.
var pieceTable = newTable(Piece{}, []Key{
	{Path: "constant.rate", to: "From", Required: true, Range: atLeast(0), Doc: "The rate."},
	{Path: "constant.epochs", to: "Epochs", Required: true, Range: above(0), Doc: "How long, in epochs; a fraction is allowed."},
	{Path: "linear.from", to: "From", Required: true, Range: atLeast(0), Doc: "Rate at the beginning."},
	{Path: "linear.to", to: "To", Required: true, Range: atLeast(0), Doc: "Rate at the end."},
	{Path: "linear.epochs", to: "Epochs", Required: true, Range: above(0), Doc: "How long, in epochs; a fraction is allowed."},
	{Path: "cosine.from", to: "From", Required: true, Range: atLeast(0), Doc: "Rate at the beginning."},
	{Path: "cosine.to", to: "To", Required: true, Range: atLeast(0), Doc: "Rate at the end."},
	{Path: "cosine.epochs", to: "Epochs", Required: true, Range: above(0), Doc: "How long, in epochs; a fraction is allowed."},
	{Path: "warmUp.to", to: "To", Required: true, Range: atLeast(0), Doc: "Rate at the end; it begins at 0."},
	{Path: "warmUp.epochs", to: "Epochs", Required: true, Range: above(0), Doc: "How long, in epochs; a fraction is allowed."},
	{Path: "oneCycle.peak", to: "Peak", Required: true, Range: above(0), Doc: "Greatest rate."},
	{Path: "oneCycle.epochs", to: "Epochs", Required: true, Range: above(0), Doc: "How long, in epochs; a fraction is allowed."},
	{Path: "oneCycle.warmUp", to: "WarmUp", Default: "0.3", Range: within(0, 1), Doc: "Share of the epochs in which the rate rises."},
	{Path: "oneCycle.start", to: "From", Range: atLeast(0), Doc: "Rate at the beginning; without it, peak/25."},
	{Path: "oneCycle.end", to: "To", Default: "0", Range: atLeast(0), Doc: "Rate at the end."},
})
