package readers

import (
	_ "embed"
	"fmt"
)

// Part of Fashion-MNIST (Xiao, Rasul and Vollgraf 2017), MIT licence, Zalando SE: see embedded/LICENSE. The files are
// the first 600 training and 100 test pictures of each class, in the order of the whole set.
//
//go:generate go run ./internal/subset -out embedded /usr/share/datasets/fashion-mnist
var (
	//go:embed embedded/train-images-idx3-ubyte.gz
	embeddedTrainImages []byte
	//go:embed embedded/train-labels-idx1-ubyte.gz
	embeddedTrainLabels []byte
	//go:embed embedded/t10k-images-idx3-ubyte.gz
	embeddedTestImages []byte
	//go:embed embedded/t10k-labels-idx1-ubyte.gz
	embeddedTestLabels []byte
)

var fashionNames = []string{"T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag",
	"Ankle boot"}

func openEmbedded(split Split) (*set, error) {
	imagesFile, labelsFile := embeddedTrainImages, embeddedTrainLabels
	if split == Test {
		imagesFile, labelsFile = embeddedTestImages, embeddedTestLabels
	}
	images, err := parseIDX(imagesFile, idxGray)
	if err != nil {
		return nil, fmt.Errorf("embedded pictures: %w", err)
	}
	labels, err := parseIDX(labelsFile, idxLabels)
	if err != nil {
		return nil, fmt.Errorf("embedded labels: %w", err)
	}
	s := &set{path: "embedded", labels: labels.numbers(), classes: fashionNames}
	s.setPixels(images)
	return s, nil
}
