// Validates an OCI runtime bundle with the library of `oci-runtime-tool validate`, and prints what it finds.
//
// The tool itself fetches the JSON Schema from GitHub, and takes only bundles of its own version of the
// specification. Here the schema is a file of runtime-spec's Go module.
package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/hashicorp/go-multierror"
	"github.com/opencontainers/runtime-tools/validate"
	"github.com/xeipuuv/gojsonschema"
)

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
}

func main() {
	schema, bundle := os.Args[1], os.Args[2]
	validator, err := validate.NewValidatorFromPath(bundle, true, "linux")
	check(err)
	result, err := gojsonschema.Validate(
		gojsonschema.NewReferenceLoader("file://"+schema),
		gojsonschema.NewReferenceLoader("file://"+bundle+"/config.json"),
	)
	check(err)
	var found *multierror.Error
	for _, each := range result.Errors() {
		found = multierror.Append(found, errors.New(each.String()))
	}
	for _, part := range []func() error{
		validator.CheckPlatform, validator.CheckRoot, validator.CheckMandatoryFields, validator.CheckMounts,
		validator.CheckProcess, validator.CheckLinux, validator.CheckAnnotations, validator.CheckHooks,
	} {
		found = multierror.Append(found, part())
	}
	for _, each := range found.WrappedErrors() {
		fmt.Println(each)
	}
}
