// Writes a database for grype with made-up vulnerabilities of Debian 12, by source package as Debian keys them.
// usage: grypedb DIR SOURCE...
package main

import (
	"fmt"
	"os"
	"time"

	v6 "github.com/anchore/grype/grype/db/v6"
	"github.com/spf13/afero"
)

func main() {
	dir := os.Args[1]
	os.MkdirAll(dir, 0o755)
	w, err := v6.NewWriter(v6.Config{DBDirPath: dir})
	if err != nil {
		panic(err)
	}
	now := time.Now()
	if err := w.SetDBMetadata(); err != nil {
		panic(err)
	}
	p := v6.Provider{ID: "debian", Version: "1", Processor: "hand", DateCaptured: &now, InputDigest: "sha256:0"}
	if err := w.AddProvider(p); err != nil {
		panic(err)
	}
	os12 := &v6.OperatingSystem{Name: "debian", ReleaseID: "debian", MajorVersion: "12", Codename: "bookworm"}
	for i, src := range os.Args[2:] {
		id := fmt.Sprintf("CVE-2099-%04d", i+1)
		v := &v6.VulnerabilityHandle{Name: id, Status: v6.VulnerabilityActive, PublishedDate: &now, ProviderID: "debian", Provider: &p,
			BlobValue: &v6.VulnerabilityBlob{ID: id, Description: "made up", Severities: []v6.Severity{{Scheme: v6.SeveritySchemeCHMLN, Value: "critical", Rank: 1}}}}
		if err := w.AddVulnerabilities(v); err != nil {
			panic(err)
		}
		a := &v6.AffectedPackageHandle{Vulnerability: v, VulnerabilityID: v.ID, OperatingSystem: os12, Package: &v6.Package{Ecosystem: "deb", Name: src},
			BlobValue: &v6.PackageBlob{CVEs: []string{id}, Ranges: []v6.Range{{Version: v6.Version{Type: "dpkg", Constraint: "< 99:0"}, Fix: &v6.Fix{Version: "99:0", State: v6.FixedStatus}}}}}
		if err := w.AddAffectedPackages(a); err != nil {
			panic(err)
		}
	}
	if err := w.Close(); err != nil {
		panic(err)
	}
	if _, err := v6.WriteImportMetadata(afero.NewOsFs(), dir, "hand"); err != nil {
		panic(err)
	}
}
