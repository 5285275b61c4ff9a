// Command sbom writes the bill of materials, as CycloneDX JSON, of binaries built from one source: the modules
// that Go records in them, Go's standard library, and the linked C library.
package main

import (
	"cmp"
	"crypto/sha256"
	"debug/buildinfo"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

func main() {
	if err := run(os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "sbom:", err)
		os.Exit(1)
	}
}

func run(w io.Writer) error {
	version := flag.String("version", "", "the program's version")
	date := flag.String("date", "unknown", "when it was made, RFC 3339")
	glibc := flag.String("glibc", "", "the version of the C library")
	dir := flag.String("dir", ".", "the binaries' directory")
	flag.Parse()
	if *version == "" || flag.NArg() == 0 {
		return errors.New("needs -version and the binaries' names")
	}

	program := cdx.Component{Type: cdx.ComponentTypeApplication, Name: "reap", Version: *version}
	var files []cdx.Component
	parts := map[string]cdx.Component{} // by package URL
	for _, name := range flag.Args() {
		path := filepath.Join(*dir, name)
		info, err := buildinfo.ReadFile(path)
		if err != nil {
			return fmt.Errorf("reading %s: %w", name, err)
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		sum := fmt.Sprintf("%x", sha256.Sum256(content))
		files = append(files, cdx.Component{
			Type: cdx.ComponentTypeFile, BOMRef: name, Name: name, Version: *version,
			Hashes: &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: sum}},
		})
		program.PackageURL = "pkg:golang/" + info.Main.Path + "@" + *version
		for _, m := range info.Deps {
			c := module(m)
			parts[c.PackageURL] = c
		}
		std := library("std", strings.TrimPrefix(info.GoVersion, "go"), "pkg:golang/std")
		parts[std.PackageURL] = std
	}
	if *glibc != "" {
		c := library("glibc", *glibc, "pkg:generic/glibc")
		parts[c.PackageURL] = c
	}
	program.BOMRef = program.PackageURL
	program.Components = &files

	var all []cdx.Component
	var refs []string
	for ref, c := range parts {
		all, refs = append(all, c), append(refs, ref)
	}
	slices.SortFunc(all, func(a, b cdx.Component) int { return cmp.Compare(a.PackageURL, b.PackageURL) })
	slices.Sort(refs)

	bom := cdx.NewBOM()
	bom.Metadata = &cdx.Metadata{Component: &program}
	if *date != "unknown" {
		bom.Metadata.Timestamp = *date
	}
	bom.Components = &all
	bom.Dependencies = &[]cdx.Dependency{{Ref: program.BOMRef, Dependencies: &refs}}
	return cdx.NewBOMEncoder(w, cdx.BOMFileFormatJSON).SetPretty(true).EncodeVersion(bom, cdx.SpecVersion1_5)
}

// module returns the component of the module that is really built in: the replacement, if there is one.
func module(m *debug.Module) cdx.Component {
	if m.Replace != nil {
		m = m.Replace
	}
	c := library(m.Path, m.Version, "pkg:golang/"+m.Path)
	if m.Sum != "" {
		c.Properties = &[]cdx.Property{{Name: "go.sum", Value: m.Sum}}
	}
	return c
}

func library(name, version, url string) cdx.Component {
	url += "@" + version
	return cdx.Component{Type: cdx.ComponentTypeLibrary, BOMRef: url, Name: name, Version: version, PackageURL: url}
}
