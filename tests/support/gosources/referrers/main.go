// The registry of CUE's module tools, in memory: it has the referrers API, which those of distribution lack.
package main

import (
	"log"
	"net/http"
	"os"

	"cuelabs.dev/go/oci/ociregistry/ocimem"
	"cuelabs.dev/go/oci/ociregistry/ociserver"
)

func main() {
	log.Fatal(http.ListenAndServe(os.Args[1], ociserver.New(ocimem.New(), nil)))
}
