// Command portable type-checks the packages of the module in the current directory for other processors, without compiling
// their dependencies. A release build for each processor takes minutes, and would find a mistake as small as an int32 only
// then.
//
//	portable [-tags TAGS] GOARCH...
package main

import (
	"flag"
	"fmt"
	"os"

	"golang.org/x/tools/go/packages"
)

func main() {
	tags := flag.String("tags", "", "build tags, separated by commas")
	flag.Parse()
	failed := false
	for _, arch := range flag.Args() {
		found, err := packages.Load(&packages.Config{
			Mode:       packages.NeedName | packages.NeedFiles | packages.NeedCompiledGoFiles | packages.NeedImports | packages.NeedDeps | packages.NeedTypes | packages.NeedSyntax | packages.NeedTypesInfo | packages.NeedTypesSizes,
			Env:        append(os.Environ(), "GOOS=linux", "GOARCH="+arch, "CGO_ENABLED=0"),
			BuildFlags: []string{"-tags", *tags},
		}, "./...")
		if err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", arch, err)
			os.Exit(1)
		}
		if len(found) == 0 {
			fmt.Fprintf(os.Stderr, "%s: no packages\n", arch)
			failed = true
		}
		for _, p := range found {
			for _, e := range p.Errors {
				fmt.Fprintf(os.Stderr, "%s: %v\n", arch, e)
				failed = true
			}
		}
	}
	if failed {
		os.Exit(1)
	}
}
