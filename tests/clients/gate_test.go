//go:build !releasetest

package clients

// built are the programs that the tests here need.
var built = []string{kwokPackage, helmPackage}

// many is how many pods one owner has where it has many.
const many = 300
