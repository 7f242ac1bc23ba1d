// Validates the documents of an OCI layout with image-spec's schemas, and prints how many of each type it read.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sort"

	"github.com/opencontainers/image-spec/schema"
	v1 "github.com/opencontainers/image-spec/specs-go/v1"
)

// The types of documents to which manifests and indexes refer.
type links struct {
	Config    *json.RawMessage
	Subject   *json.RawMessage
	Layers    []json.RawMessage
	Manifests []json.RawMessage
}

var (
	layout = os.Args[1]
	failed = false
	counts = map[string]int{}
	seen   = map[string]bool{}
)

func complain(where string, err error) {
	failed = true
	fmt.Fprintf(os.Stderr, "%s: %v\n", where, err)
}

func validate(kind schema.Validator, where string, content []byte) {
	counts[string(kind)]++
	if err := kind.Validate(bytes.NewReader(content)); err != nil {
		complain(where, err)
	}
}

// Validates a descriptor, and its document if that is here and has a schema.
func follow(raw json.RawMessage, where string) {
	var found v1.Descriptor
	validate(schema.ValidatorMediaTypeDescriptor, where, raw)
	if err := json.Unmarshal(raw, &found); err != nil {
		complain(where, err)
		return
	}
	path := filepath.Join(layout, "blobs", string(found.Digest.Algorithm()), found.Digest.Encoded())
	switch found.MediaType {
	case v1.MediaTypeImageIndex, v1.MediaTypeImageManifest, v1.MediaTypeImageConfig:
		read(schema.Validator(found.MediaType), path)
	}
}

func read(kind schema.Validator, path string) {
	if seen[path] {
		return
	}
	seen[path] = true
	content, err := os.ReadFile(path)
	if err != nil {
		complain(path, err)
		return
	}
	validate(kind, path, content)
	var held links
	if kind == schema.ValidatorMediaTypeImageConfig || kind == schema.ValidatorMediaTypeLayoutHeader {
		return
	}
	if err := json.Unmarshal(content, &held); err != nil {
		complain(path, err)
		return
	}
	for _, each := range []*json.RawMessage{held.Config, held.Subject} {
		if each != nil {
			follow(*each, path)
		}
	}
	for _, each := range append(held.Layers, held.Manifests...) {
		follow(each, path)
	}
}

func main() {
	read(schema.ValidatorMediaTypeLayoutHeader, filepath.Join(layout, "oci-layout"))
	read(schema.ValidatorMediaTypeImageIndex, filepath.Join(layout, "index.json"))
	kinds := []string{}
	for kind := range counts {
		kinds = append(kinds, kind)
	}
	sort.Strings(kinds)
	for _, kind := range kinds {
		fmt.Println(kind, counts[kind])
	}
	if failed {
		os.Exit(1)
	}
}
