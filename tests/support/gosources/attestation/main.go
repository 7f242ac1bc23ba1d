// Validates an in-toto statement on standard input, and its SLSA provenance, by in-toto's own library.
package main

import (
	"fmt"
	"io"
	"os"

	provenance "github.com/in-toto/attestation/go/predicates/provenance/v1"
	statement "github.com/in-toto/attestation/go/v1"
	"google.golang.org/protobuf/encoding/protojson"
)

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func main() {
	raw, err := io.ReadAll(os.Stdin)
	check(err)
	found := &statement.Statement{}
	check(protojson.Unmarshal(raw, found))
	check(found.Validate())
	if found.GetPredicateType() == "https://slsa.dev/provenance/v1" {
		predicate, err := protojson.Marshal(found.GetPredicate())
		check(err)
		stated := &provenance.Provenance{}
		check(protojson.Unmarshal(predicate, stated))
		check(stated.Validate())
	}
	fmt.Println(found.GetPredicateType())
}
