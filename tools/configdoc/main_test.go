package main

import (
	"bytes"
	"os"
	"testing"
)

func TestTheDocumentIsThatOfTheSchema(t *testing.T) {
	var b bytes.Buffer
	write(&b)
	have, err := os.ReadFile("../../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(b.Bytes(), have) {
		t.Error("docs/configuration.md is not what the schema gives: go run ./tools/configdoc > docs/configuration.md")
	}
}
