// Command subset writes a part of Fashion-MNIST: the first pictures of each class, in the order of the whole set, as IDX
// files under MNIST's names, compressed. It makes the data set that the readers package embeds.
//
// Usage: go run ./internal/subset -out DIR FOLDER-OF-FASHION-MNIST
package main

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"path/filepath"
)

const picture = 28 * 28

func main() {
	log.SetFlags(0)
	out := flag.String("out", ".", "folder to write to")
	flag.Parse()
	if flag.NArg() != 1 {
		log.Fatal("usage: subset -out DIR FOLDER-OF-FASHION-MNIST")
	}
	for _, part := range []struct {
		name     string
		perClass int
	}{{"train", 600}, {"t10k", 100}} {
		if err := write(flag.Arg(0), *out, part.name, part.perClass); err != nil {
			log.Fatal(err)
		}
	}
}

func write(from, to, name string, perClass int) error {
	images, err := read(filepath.Join(from, name+"-images-idx3-ubyte.gz"), 16)
	if err != nil {
		return err
	}
	labels, err := read(filepath.Join(from, name+"-labels-idx1-ubyte.gz"), 8)
	if err != nil {
		return err
	}
	if len(images) != len(labels)*picture {
		return fmt.Errorf("%d labels for %d bytes of pictures", len(labels), len(images))
	}
	var count [10]int
	var chosenImages, chosenLabels []byte
	for i, label := range labels {
		if count[label] == perClass {
			continue
		}
		count[label]++
		chosenLabels = append(chosenLabels, label)
		chosenImages = append(chosenImages, images[i*picture:(i+1)*picture]...)
	}
	n := uint32(len(chosenLabels))
	if err := compress(filepath.Join(to, name+"-images-idx3-ubyte.gz"), []uint32{0x0803, n, 28, 28}, chosenImages); err != nil {
		return err
	}
	return compress(filepath.Join(to, name+"-labels-idx1-ubyte.gz"), []uint32{0x0801, n}, chosenLabels)
}

// read returns the values of a file without its header.
func read(path string, header int) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	b, err := io.ReadAll(z)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if len(b) < header {
		return nil, fmt.Errorf("%s: no header", path)
	}
	return b[header:], nil
}

func compress(path string, header []uint32, values []byte) error {
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return err
	}
	if err := binary.Write(z, binary.BigEndian, header); err != nil {
		return err
	}
	if _, err := z.Write(values); err != nil {
		return err
	}
	if err := z.Close(); err != nil {
		return err
	}
	return os.WriteFile(path, b.Bytes(), 0o644)
}
