package readers

import (
	"encoding/xml"
	"fmt"
	"strconv"
	"strings"
)

// readMean reads CNTK's mean file, which is OpenCV's XML storage:
//
//	<opencv_storage> <Channel>3</Channel> <Row>32</Row> <Col>32</Col>
//	  <MeanImg type_id="opencv-matrix"> <rows>1</rows> <cols>3072</cols> <dt>f</dt> <data>1.2e+02 ...</data> </MeanImg>
//	</opencv_storage>
//
// It returns the values as [C][H][W], in red, green, blue. CNTK's image reader takes them pixel by pixel, blue first, as
// OpenCV does, but the script that came with it and wrote the file for CIFAR-10 wrote planes, red first. A mean of
// photographs is smooth, so of the two readings the one in which neighbors differ less is right; the note says which.
func readMean(path string, c, h, w int) (mean []float32, note string, err error) {
	content, err := readFile(path)
	if err != nil {
		return nil, "", readable("file", path, "CNTK's mean file", err)
	}
	var file struct {
		XMLName xml.Name `xml:"opencv_storage"`
		Channel int
		Row     int
		Col     int
		Mean    *struct {
			Data string `xml:"data"`
		} `xml:"MeanImg"`
	}
	if err := xml.Unmarshal(content, &file); err != nil {
		return nil, "", fmt.Errorf("%s: not a mean file of CNTK: %w", path, err)
	}
	if file.Mean == nil {
		return nil, "", fmt.Errorf("%s: no <MeanImg>: not a mean file of CNTK", path)
	}
	if file.Channel != c || file.Row != h || file.Col != w {
		return nil, "", fmt.Errorf("%s: a mean of %d channels, %d rows, %d columns; samples have %d, %d, %d",
			path, file.Channel, file.Row, file.Col, c, h, w)
	}
	words := strings.Fields(file.Mean.Data)
	if len(words) != c*h*w {
		return nil, "", fmt.Errorf("%s: %d values, %d expected", path, len(words), c*h*w)
	}
	planes := make([]float32, len(words))
	for i, word := range words {
		v, err := strconv.ParseFloat(word, 32)
		if err != nil {
			return nil, "", fmt.Errorf("%s: value %d: %q is not a number", path, i+1, word)
		}
		planes[i] = float32(v)
	}
	if c == 1 {
		return planes, "", nil
	}
	pixels := make([]float32, len(words))
	for i := range h * w {
		for k := range c {
			pixels[(c-1-k)*h*w+i] = planes[i*c+k]
		}
	}
	if roughness(planes, h, w) <= roughness(pixels, h, w) {
		return planes, fmt.Sprintf("%s holds planes: red, green, blue", path), nil
	}
	return pixels, fmt.Sprintf("%s holds pixels: blue, green, red", path), nil
}

// roughness sums how much neighbors in a row differ.
func roughness(planes []float32, h, w int) float64 {
	sum := 0.0
	for i := range planes {
		if i%w > 0 {
			d := float64(planes[i] - planes[i-1])
			sum += d * d
		}
	}
	return sum
}
