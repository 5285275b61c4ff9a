// Command portable type-checks the packages of the module in the current directory for other systems and processors, without
// compiling their dependencies. A build for each takes minutes, and would find a mistake as small as an int32 only then.
//
//	portable [-tags TAGS] GOOS/GOARCH...
package main

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"strings"

	"golang.org/x/tools/go/packages"
)

func main() {
	tags := flag.String("tags", "", "build tags, separated by commas")
	flag.Parse()
	wd, err := os.Getwd()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	root := wd + string(os.PathSeparator)
	failed := false
	for _, target := range flag.Args() {
		system, processor, ok := strings.Cut(target, "/")
		if !ok {
			fmt.Fprintf(os.Stderr, "%s is no GOOS/GOARCH\n", target)
			os.Exit(2)
		}
		found, err := packages.Load(&packages.Config{
			Mode:       packages.NeedName | packages.NeedFiles | packages.NeedCompiledGoFiles | packages.NeedImports | packages.NeedDeps | packages.NeedTypes | packages.NeedSyntax | packages.NeedTypesInfo | packages.NeedTypesSizes,
			Env:        append(os.Environ(), "GOOS="+system, "GOARCH="+processor, "CGO_ENABLED=0"),
			BuildFlags: []string{"-tags", *tags},
			ParseFile:  parse(root),
		}, "./...")
		if err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", target, err)
			os.Exit(1)
		}
		if len(found) == 0 {
			fmt.Fprintf(os.Stderr, "%s: no packages\n", target)
			failed = true
		}
		for _, p := range found {
			for _, e := range p.Errors {
				fmt.Fprintf(os.Stderr, "%s: %v\n", target, e)
				failed = true
			}
		}
	}
	if failed {
		os.Exit(1)
	}
}

// parse parses a file. Of those outside the module only declarations are kept: their functions' bodies say nothing about the module,
// and would take ten times as long.
func parse(root string) func(*token.FileSet, string, []byte) (*ast.File, error) {
	return func(set *token.FileSet, name string, src []byte) (*ast.File, error) {
		file, err := parser.ParseFile(set, name, src, parser.AllErrors|parser.SkipObjectResolution)
		if file != nil && !strings.HasPrefix(name, root) {
			for _, d := range file.Decls {
				if f, ok := d.(*ast.FuncDecl); ok {
					f.Body = nil
				}
			}
		}
		return file, err
	}
}
