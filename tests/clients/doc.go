// Package clients tests reap with others' programs: kwok, which simulates nodes, Kubernetes' scheduler and node lifecycle
// controller, and Helm. They are tools of this module's go.mod, which names their versions. docs/kwok.md and docs/helm.md
// are the pages about them; the commands there are run here.
package clients
