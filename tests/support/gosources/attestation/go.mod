module sandwright/attestation

go 1.26

require (
	github.com/in-toto/attestation v1.1.2
	google.golang.org/protobuf v1.36.6
)
